// A table that is wider than the screen can be scrolled with the keyboard too.
for (const table of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset__table")) {
  if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
}
