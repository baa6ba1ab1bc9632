// Keys: / goes to the search, j and k go through steps and rows, arrows through cells. Nothing depends on it.
"use strict";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  const go = (list, step) => {
    const all = [...document.querySelectorAll(list)];
    const here = all.findIndex((one) => one.contains(document.activeElement));
    const next = all[Math.min(Math.max(here + step, 0), all.length - 1)];
    if (!next) return;
    (next.matches("a, button, [tabindex]") ? next : next.querySelector("a, summary") ?? next).focus();
    next.scrollIntoView({ block: "nearest" });
    event.preventDefault();
  };
  if (event.key === "/") {
    const field = document.querySelector("#search");
    const link = document.querySelector('.top a[href*="/search"]');
    if (field) field.focus(); else if (link) location.assign(link.href);
    event.preventDefault();
  } else if (event.key === "j") go(".step, tbody tr, .waits, .talk, .hits li", 1);
  else if (event.key === "k") go(".step, tbody tr, .waits, .talk, .hits li", -1);
  else if (event.key === "ArrowRight" && event.target.matches(".cell")) go("a.cell", 1);
  else if (event.key === "ArrowLeft" && event.target.matches(".cell")) go("a.cell", -1);
});
