// A table that is wider than the screen can be scrolled with the keyboard too. The theme wraps tables when the page is loaded.
addEventListener("load", () =>
  setTimeout(() => {
    for (const part of document.querySelectorAll(".md-typeset__scrollwrap")) {
      if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
    }
  }, 100),
);
