// Scrolls what scrolls around an element, or the page. Returns whether it moved.
async (from, direction) => {
  const root = document.scrollingElement ?? document.documentElement;
  const room = (one, across) => across ? one.scrollWidth - one.clientWidth : one.scrollHeight - one.clientHeight;
  const scrolls = (one, across) => {
    if (room(one, across) < 1) return false;
    const style = getComputedStyle(one), kind = across ? style.overflowX : style.overflowY;
    return one === root ? !["hidden", "clip"].includes(kind) : ["auto", "scroll"].includes(kind);
  };
  const around = (across) => {
    for (let one = from; one; one = one.parentElement ?? one.getRootNode().host ?? null) {
      if (scrolls(one, across)) return one;
    }
    return scrolls(root, across) ? root : null;
  };
  const largest = (across) => {
    let found = null, area = 0;
    const all = [...document.querySelectorAll("*")].slice(0, 20000);
    for (const one of all) {  // it grows by what shadow roots hold
      if (one.shadowRoot && all.length < 40000) all.push(...one.shadowRoot.querySelectorAll("*"));
      const size = one.clientWidth * one.clientHeight;
      if (size > area && scrolls(one, across)) [found, area] = [one, size];
    }
    return found;
  };
  const scroller = (across) => around(across) ?? (from ? null : largest(across));
  let across = direction === "left" || direction === "right", one = scroller(across);
  if (!one && (direction === "start" || direction === "end")) { across = true; one = scroller(across); }
  if (!one) return "none";
  const { top, bottom } = one.getBoundingClientRect();
  if (from && one !== root && (top < 0 || bottom > innerHeight)) {  // some lists start when they come into the window
    one.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
    await new Promise((drawn) => { requestAnimationFrame(() => setTimeout(drawn, 50)); setTimeout(drawn, 300); });
  }
  const side = across ? "left" : "top", before = [one.scrollTop, one.scrollLeft];
  const page = 0.9 * (across ? one.clientWidth : one.clientHeight);
  const by = { down: page, right: page, up: -page, left: -page, start: -1e9, end: 1e9 }[direction];
  one.scrollBy({ [side]: by, behavior: "instant" });
  return one.scrollTop !== before[0] || one.scrollLeft !== before[1] ? "moved" : "at the end";
}
