// Samples to choose from.
const MOST_THUMBNAILS = 60;

function listPlaces() {
  const { filter, search } = explorer;
  const isWanted = (place) => {
    if (search && !nameSample(place).toLowerCase().includes(search)) return false;
    if (filter === "all") return true;
    if (filter === "wrong") return data.labels[place] !== data.predictions[place];
    return (data.labels || data.predictions)[place] === Number(filter);
  };
  return data.rows.map((_, place) => place).filter(isWanted);
}

function showChooser() {
  if (!data) return;
  const kinds = [["all", "all samples"], ...data.classes.map((name, j) => [String(j), name])];
  if (data.labels) kinds.splice(1, 0, ["wrong", "wrong ones"]);
  const filter = makeSelect("sample-filter", "Samples", kinds, (value) => {
    explorer.filter = value;
    showThumbnails();
  });
  const search = make("input", { type: "search", id: "sample-search", placeholder: "name or number", size: 14 });
  search.addEventListener("input", () => {
    explorer.search = search.value.trim().toLowerCase();
    showThumbnails();
  });
  const find = make("label", { class: "field" }, make("span", { text: "Find" }), search);
  const step = (text, change) => make("button", { type: "button", text, onclick: () => stepSample(change) });
  const count = make("span", { id: "sample-count", class: "hint", "aria-live": "polite" });
  byId("chooser").replaceChildren(
    make("div", { class: "tools" }, filter, find, step("Previous", -1), step("Next", 1), count),
    make("div", { class: "strip one-line", id: "thumbnails" }),
  );
  showThumbnails();
}

function showThumbnails() {
  const places = listPlaces();
  const shown = places.slice(0, MOST_THUMBNAILS);
  byId("thumbnails").replaceChildren(...shown.map((place) => makeSampleButton(place, exploreSample)));
  const rest = data.n_samples > data.rows.length ? ` (of ${data.n_samples.toLocaleString("en")} in all)` : "";
  byId("sample-count").textContent = `${shown.length} shown; ${places.length} in this page${rest}`;
  markThumbnail();
}

function markThumbnail() {
  for (const button of document.querySelectorAll("#thumbnails .sample")) {
    if (Number(button.dataset.place) === explorer.place) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
}

function stepSample(change) {
  const places = listPlaces();
  if (places.length === 0) return;
  const at = places.indexOf(explorer.place);
  const next = at < 0 ? (change > 0 ? 0 : places.length - 1) : (at + change + places.length) % places.length;
  exploreSample(places[next]);
}
