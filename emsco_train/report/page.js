
"use strict";

// The rule of Front.select, on columns of figures: the tests hold the two together.

const PARTS = ["accuracy", "coverage", "cost"];

// By how much the bounds of design i miss each requirement; 0 where they do not.
function missing(columns, i, required) {
  return PARTS.map((part) => {
    if (required[part] === null) return 0;
    const bound = columns["bound_" + part][i];
    return Math.max(0, part === "cost" ? bound - required.cost : required[part] - bound);
  });
}

// What decides among the designs that satisfy the requirements.
function objective(required) {
  if (required.accuracy !== null || required.coverage !== null) return "cost";
  return required.cost === null ? "knee" : "accuracy";
}

function merit(columns, i, by) {
  const accuracy = columns.validation_accuracy[i];
  const coverage = columns.validation_coverage[i];
  const cost = columns.validation_cost[i];
  if (by === "cost") return [-cost, accuracy, coverage];
  // A handful of rows that happen to be right are the most accurate, and say nothing.
  return [columns.bound_accuracy[i], accuracy, coverage, -cost];
}

function isBetter(one, other) {
  const place = one.findIndex((figure, part) => figure !== other[part]);
  return place >= 0 && one[place] > other[place];
}

// Which designs satisfy the requirements, and the best of them; the nearest where none does. The first of equals wins.
function choose(data, required) {
  const columns = data.designs;
  const by = objective(required);
  const fits = [];
  let best = -1;
  let nearest = 0;
  let least = Infinity;
  columns.id.forEach((_, i) => {
    const misses = missing(columns, i, required);
    fits.push(misses.every((miss) => miss === 0));
    if (fits[i] && (best < 0 || isBetter(merit(columns, i, by), merit(columns, best, by)))) best = i;
    const distance = misses[0] + misses[1] + misses[2] / data.full_cost;
    if (distance < least) [nearest, least] = [i, distance];
  });
  // Without requirements every design satisfies them, and the knee was found when the page was made.
  return { fits, best: by === "knee" ? data.knee : best, nearest, by };
}

function commandFor(data, i) {
  return `emsco-export ${data.run} --out BUNDLE --design ${data.designs.id[i]}`;
}

function commandByRequirements(data, required) {
  const options = { accuracy: "--min-accuracy", coverage: "--min-coverage", cost: "--max-cost" };
  const given = PARTS.filter((part) => required[part] !== null).map((part) => ` ${options[part]} ${required[part]}`);
  return `emsco-export ${data.run} --out BUNDLE${given.join("")}`;
}

// A number as people type it, or null for none; undefined where the command would not accept it.
function readRequirement(part, text) {
  // 12,500 is a number of thousands where the page writes it, and a fraction for many who type it.
  if (part === "cost" && /^[1-9]\d{0,2}(,\d{3})+$/.test(text.trim())) return undefined;
  const typed = text.trim().replace(",", ".");
  if (typed === "") return null;
  const number = Number(typed);
  if (!Number.isFinite(number) || number < 0) return undefined;
  if (part === "cost") return number;
  // Shares are typed in percent. Rounded, so that 97.3 becomes exactly 0.973.
  // A floor of 0 is none, as for the command.
  return number > 100 ? undefined : Number((number / 100).toFixed(10)) || null;
}

function verdict(data, required, chosen) {
  const count = chosen.fits.filter(Boolean).length;
  if (chosen.best < 0) {
    const misses = missing(data.designs, chosen.nearest, required);
    const shortfalls = misses.map((miss, part) => {
      if (miss === 0) return "";
      // As a number again, so that a large one is not written with an exponent.
      const shown = Number(part === 2 ? miss.toPrecision(3) : (100 * miss).toPrecision(2));
      return part === 2 ? `cost ${shown} ${data.unit} over` : `${PARTS[part]} ${shown} points short`;
    });
    return `No design satisfies this. Shown is the nearest: ${shortfalls.filter(Boolean).join(", ")}.`;
  }
  if (chosen.by === "knee") return "The knee of the front; no requirement was set.";
  const which = chosen.by === "cost" ? "cheapest" : "most accurate";
  return count === 1 ? "The only design that satisfies this." : `The ${which} of the ${count} designs that satisfy this.`;
}

// The order of the rows when sorted by a column; equals stay in the order of the front.
function sorted(data, key, descending) {
  const column = data.designs[key];
  const order = column.map((_, i) => i);
  const sign = descending ? -1 : 1;
  return order.sort((one, other) => {
    if (column[one] === column[other]) return one - other;
    return column[one] < column[other] ? -sign : sign;
  });
}

function start(page) {
  const data = JSON.parse(page.getElementById("data").textContent);
  const find = (id) => page.getElementById(id);
  const points = new Map([...page.querySelectorAll(".point")].map((point) => [Number(point.dataset.i), point]));
  const rows = data.designs.id.map((id) => find(`design-${id}`));
  const form = find("requirements");
  const sliders = [...form.querySelectorAll("input[type=range]")];
  let views = null;
  let selected = data.knee;

  async function readViews() {
    const bytes = Uint8Array.from(atob(find("views").textContent), (sign) => sign.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  async function show(i) {
    try {
      views ??= readViews();
      const parts = await views;
      if (i === selected) find("view").innerHTML = parts.map((part) => part[i]).join("");
    } catch (fault) {
      find("view").textContent = `This browser cannot unpack the details of designs (${fault}). Use a newer one.`;
    }
  }

  function select(i) {
    for (const element of [points.get(selected), rows[selected]]) element.classList.remove("on");
    selected = i;
    for (const element of [points.get(i), rows[i]]) element.classList.add("on");
    const mark = points.get(i).querySelector("use");
    find("ring").setAttribute("cx", mark.getAttribute("x"));
    find("ring").setAttribute("cy", mark.getAttribute("y"));
    find("command").textContent = commandFor(data, i);
    show(i);
    try {
      history.replaceState(null, "", `#design-${data.designs.id[i]}`);
    } catch {
      // Inside another page the address cannot be changed; the choice works without it.
    }
  }

  function showVerdict(text, warn, other) {
    find("verdict").textContent = text;
    find("verdict").classList.toggle("warning", warn);
    find("other").hidden = !other;
    find("other").replaceChildren("or, by the same requirements, ", Object.assign(page.createElement("code"), { textContent: other }));
  }

  function readRequirements() {
    const required = {};
    for (const part of PARTS) {
      const field = form.elements[part];
      const read = readRequirement(part, field.value);
      field.setAttribute("aria-invalid", String(read === undefined));
      required[part] = read ?? null;
    }
    return required;
  }

  function update() {
    const required = readRequirements();
    const chosen = choose(data, required);
    chosen.fits.forEach((fits, i) => {
      points.get(i).classList.toggle("off", !fits);
      rows[i].classList.toggle("off", !fits);
    });
    const met = chosen.best >= 0;
    select(met ? chosen.best : chosen.nearest);
    const unread = form.querySelector("[aria-invalid=true]") ? "What is marked is not a valid number, and was ignored. " : "";
    showVerdict(unread + verdict(data, required, chosen), !met, met && chosen.by !== "knee" ? commandByRequirements(data, required) : "");
  }

  function pick(i) {
    select(i);
    const unmet = points.get(i).classList.contains("off");
    showVerdict(`The design that you picked${unmet ? "; it does not satisfy your requirements" : ""}.`, false, "");
  }

  function follow() {
    const i = data.designs.id.indexOf(location.hash.replace("#design-", ""));
    if (i >= 0) pick(i);
  }

  page.documentElement.classList.add("scripted");
  rows[selected].classList.add("on");
  points.get(selected).classList.add("on");

  page.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-i]");
    if (!link) return;
    event.preventDefault();
    pick(Number(link.dataset.i));
    if (!link.classList.contains("point")) find("selected").scrollIntoView({ behavior: "smooth" });
  });

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(update));
  form.addEventListener("input", (event) => {
    const part = event.target.dataset.for ?? event.target.name;
    const slider = sliders.find((one) => one.dataset.for === part);
    const free = part === "cost" ? slider.max : slider.min;
    if (event.target === slider) form.elements[part].value = Number(slider.value) === Number(free) ? "" : slider.value;
    else slider.value = readRequirement(part, event.target.value) === undefined ? free : event.target.value.trim().replace(",", ".") || free;
    update();
  });

  find("copy").addEventListener("click", async () => {
    const button = find("copy");
    try {
      await navigator.clipboard.writeText(find("command").textContent);
      button.textContent = "Copied";
    } catch {
      // Not allowed here: select it, so that one key copies it.
      getSelection().selectAllChildren(find("command"));
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });

  const body = find("designs").tBodies[0];
  for (const header of find("designs").querySelectorAll("th[data-key]")) {
    const button = Object.assign(page.createElement("button"), { type: "button", textContent: header.textContent });
    header.replaceChildren(button);
    button.addEventListener("click", () => {
      const before = header.getAttribute("aria-sort");
      // The first click shows what is wanted first: much accuracy, little cost.
      const much = /accuracy|coverage|recall|fitness|ties|warnings/.test(header.dataset.key);
      const descending = before ? before === "ascending" : much;
      for (const other of header.parentNode.children) other.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", descending ? "descending" : "ascending");
      body.append(...sorted(data, header.dataset.key, descending).map((i) => rows[i]));
    });
  }

  addEventListener("hashchange", follow);
  follow();
}

if (typeof module === "object") module.exports = { choose, commandFor, commandByRequirements, readRequirement, sorted, verdict };
else start(document);
