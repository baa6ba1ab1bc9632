# pragma version ~=0.4.0
# Says when, and by whom, the root of a library's tree of lessons was first recorded.

event Anchored:
    root: indexed(bytes32)
    sender: indexed(address)
    content: String[100]
    time: uint256

struct Anchor:
    time: uint256
    sender: address
    content: String[100]

anchors: public(HashMap[bytes32, Anchor])

@external
def anchor(root: bytes32, content: String[100]):
    assert self.anchors[root].time == 0, "already anchored"
    self.anchors[root] = Anchor(time=block.timestamp, sender=msg.sender, content=content)
    log Anchored(root=root, sender=msg.sender, content=content, time=block.timestamp)

@external
@view
def proves(root: bytes32, leaf: bytes32, path: DynArray[bytes32, 32]) -> bool:
    node: bytes32 = leaf
    for other: bytes32 in path:
        if convert(node, uint256) < convert(other, uint256):
            node = keccak256(concat(node, other))
        else:
            node = keccak256(concat(other, node))
    return node == root and self.anchors[root].time != 0
