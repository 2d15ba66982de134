// Runs before the first paint, so that a chosen theme does not flash. A classic script on purpose.
(function () {
  try {
    const chosen = localStorage.getItem("faultwire.theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // storage is switched off: the system's theme it is
  }
})();
