// Returns the options of a list as label, value and whether it is disabled; null if the element is no list of the browser's own.
(named, most) => {
  const one = named instanceof HTMLLabelElement && named.control || named;
  if (!(one instanceof HTMLSelectElement)) return null;
  const off = (option) => option.disabled || option.parentElement?.disabled === true;
  const options = [...one.options].slice(0, most).map((option) => [option.label, option.value, off(option)]);
  return { options, multiple: one.multiple, disabled: one.disabled };
}
