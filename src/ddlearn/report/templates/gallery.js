// The dictionary: every atom with the class it speaks for, sorted and filtered.

// What an atom says when it is used: its mean coefficient times the classifiers.
const atoms = model.dictionary.map((values, k) => {
  const votes = model.coef.map((weights) => weights[k] * content.atoms.mean[k]);
  const best = votes.indexOf(Math.max(...votes));
  return { number: k, values, votes, best, evidence: votes[best], nUsed: content.atoms.n_used[k], sign: Math.sign(content.atoms.mean[k]) || 1 };
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
  const orders = [["class", "class"], ["evidence", "evidence for its class"], ["number", "number"]];
  if (content.atoms.source) orders.splice(1, 0, ["usage", "how often it is used"]);
  const classes = [["all", "all classes"], ...model.classes.map((name, j) => [String(j), name])];
  const isUsedOnly = make("input", { type: "checkbox", id: "used-only", onchange: () => change("isUsedOnly")(isUsedOnly.checked) });
  byId("gallery-tools").replaceChildren(
    makeSelect("atom-order", "Sort by", orders, change("order")),
    makeSelect("atom-class", "Show", classes, change("of")),
    content.atoms.source ? make("label", { class: "field" }, isUsedOnly, make("span", { text: "only atoms in use" })) : "",
    make("span", { id: "atom-count", class: "hint", "aria-live": "polite" }),
  );
  showAtoms();
}

function showAtoms() {
  const shown = atoms
    .filter((atom) => galleryState.of === "all" || atom.best === Number(galleryState.of))
    .filter((atom) => !galleryState.isUsedOnly || atom.nUsed > 0)
    .sort(ORDERS[galleryState.order]);
  byId("gallery").replaceChildren(...shown.map(makeAtomButton));
  byId("atom-count").textContent = `${shown.length} of ${atoms.length} atoms`;
}

function makeAtomPicture(atom) {
  return makePicture(atom.values.map((value) => atom.sign * value), { kind: "signed", label: `atom ${atom.number}` });
}

function makeAtomButton(atom) {
  const used = content.atoms.source ? `, used ${atom.nUsed.toLocaleString("en")} times` : "";
  const title = `Atom ${atom.number}: speaks for ${model.classes[atom.best]}${used}`;
  const button = make("button", { class: "atom", type: "button", title, "data-atom": atom.number, onclick: () => showAtom(atom) }, makeAtomPicture(atom));
  button.style.borderBottomColor = model.colors[atom.best];
  return button;
}

function showAtom(atom) {
  const rows = atom.votes.map((value, j) => ({ name: model.classes[j], value, color: model.colors[j], isStrong: j === atom.best }));
  const { n_codes: nCodes, source } = content.atoms;
  const usage = source
    ? `In the codes of ${atom.nUsed.toLocaleString("en")} of ${nCodes.toLocaleString("en")} ${source}, with a mean coefficient of ${formatNumber(content.atoms.mean[atom.number])}. `
    : "";
  const meaning = source
    ? "Bars: what it adds to the score of each class then (mean coefficient times weight)."
    : "Bars: its weight in the score of each class.";
  const users = data ? data.users[atom.number] : [];
  openDialog(
    `Atom ${atom.number}`,
    make("div", { class: "columns" }, make("div", { class: "large" }, makeAtomPicture(atom)), make("div", {}, make("p", { text: usage + meaning }), makeBars(rows, { label: "Weights of the classes" }))),
    users.length ? make("h3", { text: "Samples that use it most" }) : "",
    make("div", { class: "strip" }, ...users.map((place) => makeSampleButton(place, exploreSample))),
  );
}
