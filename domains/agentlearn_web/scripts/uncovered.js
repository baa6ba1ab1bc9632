// Brings an element into the window, and returns a point of it, measured from its corner, that no other element covers
// and where no other control stands in it, if there is one; the middle of what it holds if possible. Else the middle if
// only a part of the same field covers it, such as its placeholder; it is then `decorated`. null if there is none.
// `window` is the point as seen from the window, if the element is in no frame.
(one) => {
  const measured = (point, decorated = false) => {
    const { x, y } = one.getBoundingClientRect();
    return point && { point, decorated, window: window === window.top ? { x: x + point.x, y: y + point.y } : null };
  };
  const parts = [0.5, 0.25, 0.75, 0.1, 0.9], others = "a[href],button,input,select,textarea,summary,label";
  const hits = (at) => at !== null && (one === at || one.contains(at) || hits(at.getRootNode().host ?? null));
  const content = document.createRange();
  content.selectNodeContents(one);
  const pointIn = (box, { x, y }) => {
    let second = null;
    for (const down of parts) {
      for (const across of parts) {
        const point = { x: box.x - x + across * box.width, y: box.y - y + down * box.height };
        const at = one.getRootNode().elementFromPoint(x + point.x, y + point.y);
        if (!hits(at)) continue;
        const other = at.closest(others);
        if (!other || other.contains(one)) return point;
        second ??= point;
      }
    }
    return second;
  };
  const point = () => {
    const box = one.getBoundingClientRect(), held = content.getBoundingClientRect();
    const inside = held.width > 0 && held.height > 0 && held.left >= box.left && held.right <= box.right
      && held.top >= box.top && held.bottom <= box.bottom;
    return (inside && pointIn(held, box)) || pointIn(box, box);
  };
  const { left, top, right, bottom } = one.getBoundingClientRect();
  if (left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight) {
    const found = point();
    if (found) return measured(found);
  }
  one.scrollIntoView({ block: "center", inline: "nearest", behavior: "instant" });
  const free = point();
  if (free) return measured(free);
  if (!one.matches('input,select,textarea,[role="combobox" i],[role="textbox" i],[role="searchbox" i]')) return null;
  const { x, y, width, height } = one.getBoundingClientRect(), middle = { x: width / 2, y: height / 2 };
  const above = one.getRootNode().elementFromPoint(x + middle.x, y + middle.y);
  let around = one.parentElement;
  for (let up = 1; up < 4 && around && above && !around.contains(above); up++) around = around.parentElement;
  const small = above && around?.contains(above) && around.clientHeight <= Math.max(2 * height, 60);
  return small && !above.closest(others) ? measured(middle, true) : null;
}
