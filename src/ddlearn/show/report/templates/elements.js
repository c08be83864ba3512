// Elements of the page. Text is always set as text: whatever a class or a file is called, it is never read as HTML.
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function makeSvg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function byId(id) {
  return document.getElementById(id);
}

function makeChip(name, color) {
  const dot = make("span", { class: "dot" });
  dot.style.backgroundColor = color || "transparent";
  return make("span", { class: "chip", title: name }, dot, make("span", { text: name }));
}

function makeClassChip(position) {
  return makeChip(model.classes[position], model.colors[position]);
}

function makeSelect(id, label, options, onchange) {
  const select = make("select", { id, onchange: () => onchange(select.value) });
  options.forEach(([value, text]) => select.append(make("option", { value, text })));
  return make("label", { class: "field" }, make("span", { text: label }), select);
}

const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });

function formatNumber(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e5) return COMPACT.format(value);
  if (size >= 100) return Math.round(value).toLocaleString("en");
  return size > 0 && size < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}

function largestSize(values) {
  let largest = 0;
  for (const value of values) if (Math.abs(value) > largest) largest = Math.abs(value); // not so for NaN
  return largest;
}

function formatShare(value, digits = 1) {
  return value === null || value === undefined ? "–" : `${(100 * value).toFixed(digits)} %`;
}

// A table that scrolls on its own where the page is narrow, and says so. Heads are texts or elements; rows are made.
function makeTable(label, heads, rows, properties = {}) {
  const cells = heads.map((head) => make("th", { scope: "col" }, head));
  const table = make("table", properties, make("thead", {}, make("tr", {}, ...cells)), make("tbody", {}, ...rows));
  const frame = make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, table);
  const watch = () => frame.classList.toggle("is-cut", frame.scrollWidth > frame.clientWidth + 1);
  new ResizeObserver(watch).observe(frame);
  return frame;
}

// Offers a text as a file.
function saveFile(name, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// One dialog for all that is opened by a click; the browser closes it by Escape.
function openDialog(title, ...children) {
  const dialog = byId("dialog");
  byId("dialog-title").textContent = title;
  byId("dialog-body").replaceChildren(...children);
  if (!dialog.open) dialog.showModal();
}

function closeDialog() {
  byId("dialog").close();
}
