// Returns the list item or card that an element is part of, if the dragged one is part of one next to it, of about its size.
(target, dragged) => {
  const chain = (one) => one === null ? [] : [one, ...chain(one.parentElement)];
  const above = new Set(chain(dragged));
  const item = chain(target).find((one) => above.has(one.parentElement)) ?? target;
  const from = chain(dragged).find((one) => one.parentElement === item.parentElement) ?? dragged;
  const box = item.getBoundingClientRect(), other = from.getBoundingClientRect();
  return item !== from && box.width <= 1.5 * other.width && box.height <= 1.5 * other.height ? item : null;
}
