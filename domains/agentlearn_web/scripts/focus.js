// Gives an element, or else the editor in it, the focus, in an editor after the last of its text. Returns whether it has it.
(around) => {
  const inner = around.isContentEditable || around.tabIndex >= 0 ? [] : around.querySelectorAll("[contenteditable]");
  const one = [...inner].find((editor) => editor.isContentEditable) ?? around;
  const edits = one.isContentEditable, has = () => {
    const at = one.getRootNode().activeElement;
    return at !== null && (one === at || one.contains(at) || edits && at.isContentEditable && at.contains(one));
  };
  if (one.ownerDocument.hasFocus() && has()) return true;
  one.focus();
  if (!edits) return has();
  let host = one;
  while (host.parentElement?.isContentEditable) host = host.parentElement;
  host.focus();
  one.ownerDocument.defaultView.getSelection().selectAllChildren(one);
  one.ownerDocument.defaultView.getSelection().collapseToEnd();
  return has();
}
