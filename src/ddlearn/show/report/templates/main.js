// All parts of the page, from top to bottom.
function toggleTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
}

byId("theme").addEventListener("click", toggleTheme);
byId("dialog-close").addEventListener("click", closeDialog);
showSummary();
showExplorer();
showGallery();
showTraining();
setTimeout(showCheck);

// For the curious, and for tests: the same functions in the browser's console.
window.ddlearn = {
  model,
  data,
  pursue,
  explain,
  explainWithErrors,
  takeApart,
  renderStrokes,
  explorer,
  currentSample,
  checkPredictions,
  switchAtoms,
};
