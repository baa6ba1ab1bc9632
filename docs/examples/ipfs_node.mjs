// An IPFS node that talks only with the peers that are named: `serve CAR LISTEN` or `get CID OUT PEER`.
import { readFileSync, writeFileSync } from 'node:fs'
import { withBitswap } from '@helia/bitswap'
import { car } from '@helia/car'
import { libp2pDefaults, withLibp2p } from '@helia/libp2p'
import * as dagCbor from '@ipld/dag-cbor'
import { CarReader } from '@ipld/car/reader'
import { multiaddr } from '@multiformats/multiaddr'
import { createHeliaLight } from 'helia'
import { CID } from 'multiformats/cid'

const [task, what, where, peer, most = 16_000_000] = process.argv.slice(2)
const { identify, ping } = libp2pDefaults().services
const listen = task === 'serve' ? [where] : []
const options = { addresses: { listen }, peerDiscovery: [], services: { identify, ping } }
const node = withBitswap(withLibp2p(createHeliaLight({ codecs: [dagCbor] }), options))
await node.start()
if (task === 'serve') {
  await car(node).import(await CarReader.fromBytes(readFileSync(what)))
  console.log(JSON.stringify(node.libp2p.getMultiaddrs().map(String)))
  process.stdin.resume()
  await new Promise(resolve => process.stdin.on('end', resolve))
} else {
  await node.libp2p.dial(multiaddr(peer))
  const parts = []
  let size = 0
  for await (const part of car(node).export(CID.parse(what))) {
    parts.push(part)
    if ((size += part.length) > Number(most)) throw new Error(`the content is larger than ${most} bytes`)
  }
  writeFileSync(where, Buffer.concat(parts))
}
await node.stop()
process.exit(0)
