// j and k go to the next and the previous event of a page, and / to the search. Pages work without it.
"use strict";
document.addEventListener("keydown", (pressed) => {
  const field = pressed.target.closest("input, select, textarea, [contenteditable]");
  if (field || pressed.ctrlKey || pressed.metaKey || pressed.altKey) return;
  if (pressed.key === "j" || pressed.key === "k") {
    const events = [...document.querySelectorAll("article")];
    const here = events.indexOf(document.activeElement.closest("article"));
    const next = events[pressed.key === "j" ? here + 1 : Math.max(here, 1) - 1];
    if (next) {
      next.tabIndex = -1;
      next.focus();
    }
  } else if (pressed.key === "/") {
    const search = document.querySelector("input[type=search]");
    const link = document.querySelector(".tabs a[href*='/search?']");
    if (search || link) pressed.preventDefault();
    if (search) search.focus();
    else if (link) link.click();
  }
});
