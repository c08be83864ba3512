// The dictionary: every atom with the class it speaks for, sorted and filtered.

// What an atom says when it is used: its mean coefficient times the classifiers. One that is not used has weights only.
const atoms = model.dictionary.map((scaled, number) => {
  const values = unscale(scaled, 1, true);
  const mean = content.atoms.mean[number];
  const votes = model.coef.map((weights) => weights[number] * (mean === null ? 1 : mean));
  const best = votes.indexOf(Math.max(...votes));
  return { number, scaled, values, mean, votes, best, evidence: votes[best], nUsed: content.atoms.n_used[number] };
});

const ORDERS = {
  class: (a, b) => a.best - b.best || b.evidence - a.evidence,
  usage: (a, b) => b.nUsed - a.nUsed,
  evidence: (a, b) => b.evidence - a.evidence,
  number: (a, b) => a.number - b.number,
};

const galleryState = { order: "class", of: "all", isUsedOnly: false };

function showGallery() {
  const change = (name) => (value) => {
    galleryState[name] = value;
    showAtoms();
  };
  const orders = [
    ["class", "class"],
    ["evidence", "evidence for its class"],
    ["number", "number"],
  ];
  if (content.atoms.source) orders.splice(1, 0, ["usage", "how often it is used"]);
  const classes = [["all", "all classes"], ...model.classes.map((name, j) => [String(j), name])];
  byId("gallery-tools").replaceChildren(
    makeSelect("atom-order", "Sort by", orders, change("order")),
    makeSelect("atom-class", "Show", classes, change("of")),
    content.atoms.source ? makeUsedField(change("isUsedOnly")) : "",
    make("span", { id: "atom-count", class: "hint", "aria-live": "polite" }),
  );
  showAtoms();
}

function makeUsedField(change) {
  const input = make("input", { type: "checkbox", id: "used-only", onchange: () => change(input.checked) });
  return make("label", { class: "field" }, input, make("span", { text: "only atoms in use" }));
}

function showAtoms() {
  const shown = atoms
    .filter((atom) => galleryState.of === "all" || atom.best === Number(galleryState.of))
    .filter((atom) => !galleryState.isUsedOnly || atom.nUsed > 0)
    .sort(ORDERS[galleryState.order]);
  byId("gallery").replaceChildren(...shown.map(makeAtomButton));
  byId("atom-count").textContent = `${shown.length} of ${atoms.length} atoms`;
  showSwitched();
}

// An atom's sign is arbitrary: it is shown as it is mostly used.
function makeAtomPicture({ number, values, mean }) {
  const sign = mean < 0 ? -1 : 1;
  return makePicture(
    values.map((value) => sign * value),
    { kind: "signed", label: `atom ${number}` },
  );
}

function describeUse({ nUsed, mean }) {
  const { n_codes: nCodes, source } = content.atoms;
  if (!source) return "";
  if (mean === null) return `Not used in the codes of ${nCodes.toLocaleString("en")} ${source}. `;
  const count = `${nUsed.toLocaleString("en")} of ${nCodes.toLocaleString("en")} ${source}`;
  return `In the codes of ${count}, with a mean coefficient of ${formatNumber(mean)}. `;
}

function makeAtomButton(atom) {
  const used = content.atoms.source ? `, used ${atom.nUsed.toLocaleString("en")} times` : "";
  const tops = model.table ? `; ${listTopFeatures(atom)}` : "";
  const title = `Atom ${atom.number}: speaks for ${model.classes[atom.best]}${used}${tops}`;
  const properties = { class: "atom", type: "button", title, "data-atom": atom.number };
  const button = make("button", { ...properties, onclick: () => showAtom(atom) }, makeAtomPicture(atom));
  button.style.borderBottomColor = model.colors[atom.best];
  return button;
}

function showAtom(atom) {
  const meaning =
    content.atoms.source && atom.mean !== null
      ? "Bars: what it adds to the score of each class then (mean coefficient times weight)."
      : "Bars: its weight in the score of each class.";
  const bars = makeClassBars(atom.votes, atom.best, "Weights of the classes");
  const users = data ? data.users[atom.number] : [];
  openDialog(
    `Atom ${atom.number}`,
    model.pursuit ? makeSwitch(atom.number) : "",
    make(
      "div",
      { class: "atom-facts" },
      model.table ? makeTopFeatures(atom) : makeAtomPicture(atom),
      make("div", {}, make("p", { text: describeUse(atom) + meaning }), bars),
    ),
    users.length ? make("h3", { text: "Samples that use it most" }) : "",
    make("div", { class: "strip" }, ...users.map((place) => makeSampleButton(place, visitSample))),
  );
}
