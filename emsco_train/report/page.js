
"use strict";

// The rule of Front.select, on columns of figures: the tests hold the two together.

const PARTS = ["accuracy", "coverage", "cost"];

// By how much design i misses each part of a wish; 0 where it does not.
function missing(columns, i, wish) {
  return PARTS.map((part) => {
    if (wish[part] === null) return 0;
    const figure = columns["validation_" + part][i];
    return Math.max(0, part === "cost" ? figure - wish.cost : wish[part] - figure);
  });
}

// What decides among the designs that satisfy a wish.
function decider(wish) {
  if (wish.accuracy !== null || wish.coverage !== null) return "cost";
  return wish.cost === null ? "fitness" : "accuracy";
}

function merit(columns, i, by) {
  const accuracy = columns.validation_accuracy[i];
  const coverage = columns.validation_coverage[i];
  const cost = columns.validation_cost[i];
  if (by === "cost") return [-cost, accuracy, coverage];
  return by === "accuracy" ? [accuracy, coverage, -cost] : [columns.fitness[i]];
}

function isBetter(one, other) {
  const place = one.findIndex((figure, part) => figure !== other[part]);
  return place >= 0 && one[place] > other[place];
}

// Which designs satisfy a wish, and the best of them; the nearest where none does. The first of equals wins.
function choose(data, wish) {
  const columns = data.designs;
  const by = decider(wish);
  const fits = [];
  let best = -1;
  let nearest = 0;
  let least = Infinity;
  columns.id.forEach((_, i) => {
    const misses = missing(columns, i, wish);
    fits.push(misses.every((miss) => miss === 0));
    if (fits[i] && (best < 0 || isBetter(merit(columns, i, by), merit(columns, best, by)))) best = i;
    const distance = misses[0] + misses[1] + misses[2] / data.full_cost;
    if (distance < least) [nearest, least] = [i, distance];
  });
  return { fits, best, nearest, by };
}

function commandFor(data, i) {
  return `emsco-export ${data.run} --out BUNDLE --design ${data.designs.id[i]}`;
}

function commandByWish(data, wish) {
  const options = { accuracy: "--min-accuracy", coverage: "--min-coverage", cost: "--max-cost" };
  const given = PARTS.filter((part) => wish[part] !== null).map((part) => ` ${options[part]} ${wish[part]}`);
  return `emsco-export ${data.run} --out BUNDLE${given.join("")}`;
}

// A number as people type it, or null for none; undefined where it is no number that the command would take.
function readWish(part, text) {
  const typed = text.trim().replace(",", ".");
  if (typed === "") return null;
  const number = Number(typed);
  if (!Number.isFinite(number) || number < 0) return undefined;
  if (part === "cost") return number;
  // Shares are typed in percent. Rounded, so that 97.3 becomes 0.973 and no neighbour of it.
  // A floor of 0 is none, as for the command.
  return number > 100 ? undefined : Number((number / 100).toFixed(10)) || null;
}

function verdict(data, wish, chosen) {
  const count = chosen.fits.filter(Boolean).length;
  if (chosen.best < 0) {
    const misses = missing(data.designs, chosen.nearest, wish);
    const told = misses.map((miss, part) => {
      if (miss === 0) return "";
      return part === 2 ? `cost ${miss.toPrecision(3)} ${data.unit} over` : `${PARTS[part]} ${(100 * miss).toPrecision(2)} points short`;
    });
    return `No design satisfies this. Shown is the nearest: ${told.filter(Boolean).join(", ")}.`;
  }
  if (chosen.by === "fitness") return "The fittest design; no wish was made.";
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
  const form = find("wishes");
  const sliders = [...form.querySelectorAll("input[type=range]")];
  let views = null;
  let selected = 0;

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
      // Inside another page the address is not ours; the choice works without it.
    }
  }

  function tell(text, warn, other) {
    find("verdict").textContent = text;
    find("verdict").classList.toggle("warning", warn);
    find("other").hidden = !other;
    find("other").replaceChildren("or, by the same wishes, ", Object.assign(page.createElement("code"), { textContent: other }));
  }

  function readWishes() {
    const wish = {};
    for (const part of PARTS) {
      const field = form.elements[part];
      const read = readWish(part, field.value);
      field.setAttribute("aria-invalid", String(read === undefined));
      wish[part] = read ?? null;
    }
    return wish;
  }

  function wished() {
    const wish = readWishes();
    const chosen = choose(data, wish);
    chosen.fits.forEach((fits, i) => {
      points.get(i).classList.toggle("off", !fits);
      rows[i].classList.toggle("off", !fits);
    });
    const met = chosen.best >= 0;
    select(met ? chosen.best : chosen.nearest);
    const unread = form.querySelector("[aria-invalid=true]") ? "What is marked is no number in reach, and was left out. " : "";
    tell(unread + verdict(data, wish, chosen), !met, met && chosen.by !== "fitness" ? commandByWish(data, wish) : "");
  }

  function pick(i) {
    select(i);
    const beside = points.get(i).classList.contains("off");
    tell(`The design that you picked${beside ? "; it does not satisfy your wishes" : ""}.`, false, "");
  }

  function follow() {
    const i = data.designs.id.indexOf(location.hash.replace("#design-", ""));
    if (i >= 0) pick(i);
  }

  page.documentElement.classList.add("scripted");
  rows[0].classList.add("on");
  points.get(0).classList.add("on");

  page.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-i]");
    if (!link) return;
    event.preventDefault();
    pick(Number(link.dataset.i));
    if (!link.classList.contains("point")) find("selected").scrollIntoView({ behavior: "smooth" });
  });

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(wished));
  form.addEventListener("input", (event) => {
    const part = event.target.dataset.for ?? event.target.name;
    const slider = sliders.find((one) => one.dataset.for === part);
    const free = part === "cost" ? slider.max : slider.min;
    if (event.target === slider) form.elements[part].value = Number(slider.value) === Number(free) ? "" : slider.value;
    else slider.value = form.elements[part].value.trim().replace(",", ".") || free;
    wished();
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
      const much = /accuracy|coverage|fitness|ties|warnings/.test(header.dataset.key);
      const descending = before ? before === "ascending" : much;
      for (const other of header.parentNode.children) other.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", descending ? "descending" : "ascending");
      body.append(...sorted(data, header.dataset.key, descending).map((i) => rows[i]));
    });
  }

  addEventListener("hashchange", follow);
  follow();
}

if (typeof module === "object") module.exports = { choose, commandFor, commandByWish, readWish, sorted };
else start(document);
