// Returns the state of a document. Runs in an isolated world, where it keeps when the document changed last and how many
// timers have been started: the numbers of timers are those of the page's own, one after the other.
// If a page that is not large has been quiet for `calm` seconds, or cannot change by itself, `readText` reads it as well.
(calm, readText) => {
  const MOST_READ = 3000;
  const kept = globalThis.kept ??= (() => {
    const kept = { changed: performance.now(), changes: 0, still: null, timer: 0, timers: 0 };
    const options = { subtree: true, childList: true, attributes: true, characterData: true };
    new MutationObserver(() => {
      kept.changed = performance.now();
      kept.changes += 1;
      kept.still = null;
    }).observe(document, options);
    return kept;
  })();
  const timer = setTimeout(() => {});
  clearTimeout(timer);
  kept.timers += Math.max(timer - kept.timer - 1, 0);
  kept.timer = timer;
  const ready = document.readyState === "complete";
  const acting = 'script,iframe,frame,object,embed,marquee,audio,video,meta[http-equiv="refresh" i],' +
    '[href^="javascript:" i],[action^="javascript:" i],[formaction^="javascript:" i]';
  if (ready && kept.still === null) {
    kept.still = !document.querySelector(acting) && !document.evaluate(
      "boolean(//@*[starts-with(local-name(), 'on')])", document, null, XPathResult.BOOLEAN_TYPE, null).booleanValue;
  }
  const left = document.getAnimations().filter((one) => one.playState === "running" && one.effect).map((one) =>
    (one.effect.getComputedTiming().endTime - one.currentTime) / 1000 / (Math.abs(one.playbackRate) || 1));
  const unchanged = (performance.now() - kept.changed) / 1000, elements = document.getElementsByTagName("*").length;
  const moving = Math.max(0, ...left.filter((one) => one <= 1));
  const reads = readText && ready && elements <= MOST_READ && (kept.still || unchanged >= calm && !moving);
  return {
    text: reads && document.querySelector("body, frameset") ? readText() : null,
    ready, still: ready && kept.still, elements,
    title: document.title.slice(0, 300),
    status: performance.getEntriesByType("navigation")[0]?.responseStatus ?? 0,
    changes: kept.changes, unchanged_s: unchanged, timers: kept.timers,
    moving_s: moving,
    bodiless: document.querySelector("body, frameset") ? null
      : (document.documentElement?.textContent ?? "").slice(0, 20000),
  };
}
