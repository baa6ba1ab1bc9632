// Starts an episode on a MiniWoB++ page: with a seed, for a day, without its reward and clock being shown. `mark` is set
// on the document, so that a page that is opened again can be told. labelled: whether unnamed controls get labels.
([seed, mark, labelled]) => {
  // Links, icons, handles and single shapes that the pages draw without naming them: selector, role, name.
  const UNNAMED = [
    [".alink", "link", ""],
    [".email-actions .trash", "button", "trash"],
    [".email-actions .star", "button", "star"],
    ["#open-search", "button", "search"],
    ["#close-email, #close-reply, #close-forward, #search-cancel", "button", "back"],
    ["#send-reply, #send-forward", "button", "send"],
    [".controls .reply", "button", "Reply"],
    [".controls .retweet", "button", "Retweet"],
    [".controls .like", "button", "Like"],
    [".controls .share", "button", "Share"],
    [".controls .more", "button", "More"],
    [".food-order .remove", "button", "remove"],
    [".food-order .add", "button", "add"],
    [".ui-resizable-se", "button", "resize"],
    [".black-circle", "img", "circle"],
    [".black-shape", "img", "item"],
  ];
  const style = document.createElement("style");
  style.textContent = "#reward-display, #click-canvas, #sync-task-cover { display: none !important; }";
  document.head.append(style);
  Math.seedrandom(String(seed));
  core.EPISODE_MAX_TIME = 86400000;
  core.countdownTimer = () => {};
  core.startEpisodeReal();
  core.startEpisode = () => {};
  core.startEpisodeReal = () => {};
  const name = () => {
    for (const [selector, role, label] of UNNAMED) {
      for (const one of document.querySelectorAll(`:is(${selector}):not([role])`)) {
        one.setAttribute("role", role);
        if (label) one.setAttribute("aria-label", label);
      }
    }
  };
  if (labelled) {
    name();
    new MutationObserver(name).observe(document.body, { childList: true, subtree: true });
  }
  globalThis.agentlearnEpisode = mark;
}
