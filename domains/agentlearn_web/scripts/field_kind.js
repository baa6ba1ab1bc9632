// Returns what kind of field an element is.
(named) => {
  const one = named instanceof HTMLLabelElement && named.control || named;
  const editable = one.isContentEditable === true;
  return { tag: one.localName, type: one.type ?? "", editable };
}
