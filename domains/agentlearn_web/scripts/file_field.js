// Returns what a file field takes; null if the element is none.
(named) => {
  const one = named instanceof HTMLLabelElement && named.control || named;
  if (!(one instanceof HTMLInputElement) || one.type !== "file") return null;
  return { multiple: one.multiple, disabled: one.disabled, folder: one.webkitdirectory === true };
}
