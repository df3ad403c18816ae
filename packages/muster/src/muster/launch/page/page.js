// Shows a job: what its record says, as it changes, its curves, and the log of one task.
"use strict";

const KINDS = [["compute", "computes"], ["input", "waits for input"], ["communication", "exchanges with others"], ["idle", "has nothing to do"]];
const COLOURS = ["--one", "--two", "--three", "--four", "--five", "--six"];
const MOST_LINES = 2000, MOST_POINTS = 2000;
const $ = (id) => document.getElementById(id);

let state = null, curves = {}, logTask = "", logNext = -1, logBusy = false;

function made(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const nameOf = (task) => `${task.type}-${task.index}`;

function number(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  return size >= 100 ? value.toFixed(0) : size >= 0.001 || size === 0 ? String(+value.toPrecision(3)) : value.toExponential(2);
}

function duration(secs) {
  secs = Math.max(0, Math.round(secs));
  const parts = [Math.floor(secs / 3600), Math.floor(secs / 60) % 60, secs % 60].map((part) => String(part).padStart(2, "0"));
  return parts.join(":");
}

function clock(time) {
  return new Date(time * 1000).toLocaleTimeString("en-GB");
}

function isTrainer(task) {
  return ["chief", "master", "worker"].includes(task.type);
}

// The task whose figures are the job's: the first that has some.
function lead() {
  const trainers = state.tasks.filter((task) => isTrainer(task) && task.progress);
  return trainers.find((task) => task.progress.step !== null) || trainers[0];
}

function showHead() {
  const how = state.runs ? "has run for" : state.code === null ? "was killed with its launcher, after" : state.code ? `failed with exit code ${state.code}, after` : "ended well, after";
  $("program").textContent = state.program.join(" ");
  $("about").textContent = `Job ${state.name} on ${state.host} ${how} ${duration(state.written - state.began)}. Logs: ${state.folder}`;
  $("dot").className = "dot" + (state.runs ? " runs" : state.code ? " failed" : "");
  document.title = `${state.runs ? "▶" : state.code ? "✗" : "✓"} ${state.program.join(" ")}`;
}

function card(name, value, small = "", extra = null) {
  const inside = [made("dt", {}, name), made("dd", {}, value, ...(small ? [" ", made("small", {}, small)] : []))];
  return made("dl", { class: "card" }, ...inside, ...(extra ? [extra] : []));
}

function newest(field) {
  const found = state.tasks.map((task) => task.progress && task.progress[field]).filter((value) => value || value === 0);
  return found.length ? found[found.length - 1] : null;
}

function showSummary() {
  const cards = [], task = lead(), known = task ? task.progress : {};
  const closures = state.tasks.filter((each) => ["chief", "master"].includes(each.type) && each.progress && each.progress.closures !== null);
  if (known.epoch) cards.push(card("epoch", number(known.epoch), known.epochs ? `of ${known.epochs}` : ""));
  if (known.step !== null && known.step !== undefined) {
    const bar = known.max_steps ? made("progress", { max: known.max_steps, value: known.step, "aria-label": "steps" }) : null;
    cards.push(card("step", number(known.step), known.max_steps ? `of\u00a0${number(known.max_steps)}` : "", bar));
    cards.push(card("steps/s", number(known.steps_per_sec)));
  }
  if (closures.length) {
    cards.push(card("closures", number(closures[0].progress.closures)));
    cards.push(card("closures/s", number(closures[0].progress.closures_per_sec)));
  }
  if (known.loss !== null && known.loss !== undefined) cards.push(card("loss", number(known.loss)));
  if (state.runs && task && task.answers && task.left_secs !== null) cards.push(card("time left", duration(task.left_secs)));
  for (const [name, value] of Object.entries(known.metrics || {})) cards.push(card(name, number(value)));
  const saved = newest("checkpoint");
  if (saved !== null) cards.push(card("last checkpoint", number(saved)));
  const evaluated = newest("evaluation");
  if (evaluated) {
    const wide = card("last evaluation", made("small", {}, evaluated));
    wide.classList.add("wide");
    cards.push(wide);
  }
  const restarts = state.tasks.reduce((sum, each) => sum + Math.max(0, each.starts - 1), 0);
  if (restarts) cards.push(card("restarts of tasks", number(restarts)));
  $("summary").replaceChildren(...cards);
}

function stateOf(task) {
  if (!task.answers || !task.progress) return [task.state, /fail|kill|exit code|signal/.test(task.state) ? "failed" : ""];
  const waits = task.progress.waits_for;
  return waits ? [`${task.progress.state}, waits for ${waits}`, "waits"] : [task.progress.state, task.progress.state];
}

function facts(task) {
  const known = task.progress || {}, found = [];
  const add = (name, value, form = number) => {
    if (value !== null && value !== undefined) found.push(made("div", {}, made("span", {}, `${name} `), form(value)));
  };
  if (task.type !== "ps") add("step", known.step);
  add("steps/s", known.steps_per_sec);
  add("closures", known.closures);
  add("closures/s", known.closures_per_sec);
  if (task.type !== "ps") add("loss", known.loss);
  add("pulls", known.pulls);
  add("pushes", known.pushes);
  add("queue", known.queue);
  add("staleness", known.staleness);
  if (task.starts > 1) add("starts", task.starts);
  return found;
}

function bar(waits) {
  const parts = KINDS.filter(([kind]) => waits[kind]).map(([kind, text]) => {
    const share = 100 * waits[kind];
    const part = made("i", { class: kind, title: `${text}: ${share.toFixed(0)} %` });
    part.style.width = `${share}%`;
    return part;
  });
  const said = KINDS.filter(([kind]) => waits[kind]).map(([kind, text]) => `${text} ${(100 * waits[kind]).toFixed(0)} %`);
  return made("div", { class: "bar", role: "img", "aria-label": said.join(", "), title: said.join(", ") }, ...parts);
}

function showTasks() {
  const shown = state.tasks.map((task) => {
    const [text, kind] = stateOf(task);
    const waits = task.waits || {};
    return made("div", { class: "task", id: `task-${nameOf(task)}` },
      made("header", {}, made("strong", {}, `${task.type} ${task.index}`), made("div", { class: `state ${kind}` }, text)),
      made("div", { class: "facts" }, ...facts(task)),
      ...(Object.keys(waits).length ? [bar(waits)] : []),
      made("div", { class: "where" }, `${task.host || state.host}, process ${task.pid}`));
  });
  $("tasks").replaceChildren(...shown);
  const kinds = KINDS.filter(([kind]) => state.tasks.some((task) => (task.waits || {})[kind]));
  $("legend").replaceChildren(...kinds.map(([kind, text]) => made("span", {}, made("i", { class: kind }), text)));
}

function showEvents() {
  const shown = [...state.events].reverse().map((event) =>
    made("li", {}, made("time", { datetime: new Date(event.time * 1000).toISOString() }, clock(event.time)), made("span", {}, event.text)));
  $("events").replaceChildren(...(shown.length ? shown : [made("li", { class: "none" }, "Nothing yet.")]));
  const stacks = state.stacks.flatMap((name) => [made("a", { href: `stacks/${name}` }, name), " "]);
  $("stacks").replaceChildren(...(stacks.length ? ["Where threads were when a task stood still: ", ...stacks] : []));
  const folders = [...new Set(state.tasks.map((task) => task.progress && task.progress.summaries).filter(Boolean))];
  const old = $("more").querySelectorAll(".tensorboard");
  if (old.length !== folders.length) {
    old.forEach((each) => each.remove());
    $("more").prepend(...folders.map((folder) => made("li", { class: "tensorboard" },
      made("a", { href: `http://${location.hostname}:6006/` }, "TensorBoard"), ", once it runs: ", made("code", {}, `tensorboard --logdir ${folder}`))));
  }
}

// Curves: what each task said, over time; workers in step say the same, so one line stands for them.
const CHARTS = [
  ["loss", (point) => point.loss, isTrainer],
  ["steps/s", (point) => point.steps_per_sec, isTrainer],
  ["closures/s", (point) => point.closures_per_sec, () => true],
  ["staleness", (point) => point.staleness, (task) => task.type === "ps"],
];

function remember() {
  for (const task of state.tasks) {
    if (!task.answers || !task.progress) continue;
    const points = (curves[nameOf(task)] = curves[nameOf(task)] || []);
    if (points.length && state.written - points[points.length - 1].time < 0.5) continue;
    points.push({ time: state.written, ...task.progress, waits: task.waits });
    if (points.length > MOST_POINTS) points.splice(0, points.length, ...points.filter((_, n) => n % 2 === 0));
  }
}

function showCurves() {
  const metrics = [...new Set(Object.values(curves).flatMap((points) => points.length ? Object.keys(points[points.length - 1].metrics || {}) : []))];
  const charts = [...CHARTS, ...metrics.map((name) => [name, (point) => (point.metrics || {})[name], isTrainer])];
  const served = state.tasks.some((task) => task.type === "ps");
  const shown = [];
  for (const [title, value, chosen] of charts) {
    let lines = state.tasks.filter(chosen).map((task) => [`${task.type} ${task.index}`,
      (curves[nameOf(task)] || []).map((point) => [point.time - state.began, value(point)]).filter(([, each]) => Number.isFinite(each))]);
    lines = lines.filter(([, points]) => points.length > 1);
    if (lines.length > 1 && !served && title !== "closures/s") lines = lines.slice(0, 1);
    if (lines.length) shown.push(chart(title, lines));
  }
  $("charts").replaceChildren(...(shown.length ? shown : [made("p", { class: "none" }, "They begin when tasks have trained for a few seconds.")]));
}

function chart(title, lines) {
  const all = lines.flatMap(([, points]) => points);
  const from = Math.min(...all.map(([x]) => x)), to = Math.max(...all.map(([x]) => x), from + 1);
  let low = Math.min(...all.map(([, y]) => y)), high = Math.max(...all.map(([, y]) => y));
  if (low > 0 && (title.endsWith("/s") || low < 0.5 * high)) low = 0;
  if (high === low) { low -= Math.abs(low) / 2 || 1; high += Math.abs(high) / 2 || 1; }
  const width = 300, height = 100;
  const at = ([x, y]) => [(width * (x - from)) / (to - from), height - (height * (y - low)) / (high - low)];
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 -2 ${width} ${height + 4}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${title} from ${number(low)} to ${number(high)}`);
  const draw = (path, kind, colour) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", "path");
    element.setAttribute("d", path);
    if (kind) element.setAttribute("class", kind);
    if (colour) element.style.stroke = `var(${colour})`;
    svg.append(element);
  };
  for (const y of [0, height / 2, height]) draw(`M0 ${y}H${width}`, "grid");
  lines.forEach(([, points], n) => draw("M" + points.map((point) => at(point).map((each) => each.toFixed(2)).join(" ")).join("L"), "", COLOURS[n % COLOURS.length]));
  const last = lines.map(([, points]) => number(points[points.length - 1][1]));
  const output = made("output", {}, last.slice(0, 3).join(" · ") + (last.length > 3 ? " …" : ""));
  const keys = lines.length > 1 ? made("p", { class: "legend" }, ...lines.slice(0, 12).map(([name], n) => {
    const mark = made("i");
    mark.style.background = `var(${COLOURS[n % COLOURS.length]})`;
    return made("span", {}, mark, name);
  })) : "";
  return made("div", { class: "chart" }, made("h3", {}, title, output), svg,
    made("div", { class: "axis" }, made("span", {}, `${number(low)} … ${number(high)}`), made("span", {}, `${duration(from)} to ${duration(to)}`)), keys);
}

function showTaskChoice() {
  const names = state.tasks.map(nameOf), options = [...$("which").options].map((option) => option.value);
  if (names.join() === options.join()) return;
  $("which").replaceChildren(...names.map((name) => made("option", { value: name }, name.replace("-", " "))));
  if (names.includes(logTask)) $("which").value = logTask;
  else if (names.length) chooseLog(names[0]);
}

function chooseLog(name) {
  logTask = name;
  logNext = -1;
  $("log").textContent = "";
  readLog();
}

async function readLog() {
  if (!logTask || logBusy) return;
  const task = logTask;
  logBusy = true;
  try {
    for (;;) {
      const answer = await fetch(`logs/${task}?from=${logNext}`);
      if (!answer.ok || task !== logTask) break;
      const { lines, next } = await answer.json();
      if (task !== logTask || next === logNext) break;
      logNext = next;
      const log = $("log");
      log.append(lines.map((line) => line + "\n").join(""));
      while (log.childNodes.length > MOST_LINES) log.firstChild.remove();
      if ($("follow").checked) log.scrollTop = log.scrollHeight;
    }
  } catch { /* the stream of events says that the launcher is gone */ }
  logBusy = false;
  if (task !== logTask) readLog();
}

function show() {
  showHead();
  showSummary();
  showCurves();
  showTasks();
  showEvents();
  showTaskChoice();
  readLog();
}

function listen() {
  const events = new EventSource("events");
  events.onmessage = (message) => {
    state = JSON.parse(message.data);
    $("lost").hidden = true;
    remember();
    show();
  };
  const end = () => events.close();
  events.addEventListener("ended", end);
  events.addEventListener("gone", () => { end(); $("lost").hidden = false; });
  events.onerror = () => { $("lost").hidden = !state || !state.runs; };
}

$("which").addEventListener("change", () => chooseLog($("which").value));
$("follow").addEventListener("change", () => { if ($("follow").checked) $("log").scrollTop = $("log").scrollHeight; });
fetch("curves").then((answer) => answer.json()).then((found) => { curves = found; }).catch(() => {}).finally(listen);
