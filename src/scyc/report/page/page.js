"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const views = new Map(); // figure's id -> its view
  const hidden = new Set();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // Columns come as lists, as one value that all rows share, or as places in a list of words.
  const column = (packed) => {
    if (Array.isArray(packed)) return packed;
    return "all" in packed ? Array(packed.count).fill(packed.all) : packed.at.map((place) => packed.words[place]);
  };
  const rows = (columns) => {
    const names = Object.keys(columns);
    const lists = names.map((name) => column(columns[name]));
    return (lists[0] || []).map((_, i) => Object.fromEntries(names.map((name, k) => [name, lists[k][i]])));
  };

  const configured = (figure) => {
    const config = structuredClone(page.themes[theme()]);
    if (figure.range) config.range.category = figure.range[theme()];
    return config;
  };
  const signals = (box) => {
    const slider = box.closest("section").querySelector("[data-cycle]");
    return { hidden: [...hidden], cycle: slider ? Number(slider.value) : 0 };
  };
  const spec = (figure, box) => {
    const made = structuredClone(figure.spec);
    const now = signals(box);
    for (const param of made.params || []) if (param.name in now) param.value = now[param.name];
    made.params = [...(made.params || []), ...Object.entries(page.inks[theme()]).map(([name, value]) => ({ name, value }))];
    made.datasets = Object.fromEntries(Object.entries(figure.data).map(([name, data]) => [name, rows(data)]));
    made.description = figure.words;
    return made;
  };
  const refused = { load: () => Promise.reject(new Error("this page loads nothing")), sanitize: () => Promise.reject(new Error("this page links nothing")) };

  const draw = async (box) => {
    const figure = page.figures[box.dataset.figure];
    const options = { mode: "vega-lite", renderer: "svg", actions: false, config: configured(figure), loader: refused, tooltip: { disableDefaultStyle: true } };
    const made = await vegaEmbed(box.querySelector(".plot"), spec(figure, box), options);
    views.get(box.id)?.finalize();
    views.set(box.id, made.view);
    box.dataset.drawn = theme();
  };
  const queue = new Map();
  const drawn = (box) => {
    const next = (queue.get(box.id) || Promise.resolve()).then(() => draw(box));
    queue.set(box.id, next);
    return next;
  };

  // Figures are drawn when they come near the screen.
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      near.unobserve(entry.target);
      drawn(entry.target);
    }
  }, { rootMargin: "800px" });
  const boxes = all("[data-figure]");
  boxes.forEach((box) => near.observe(box));
  addEventListener("beforeprint", () => boxes.filter((box) => !box.hidden && !box.dataset.drawn).forEach(drawn));

  const tell = (name, value, within = document) => {
    for (const box of all("[data-figure]", within)) {
      const asked = (page.figures[box.dataset.figure].spec.params || []).some((param) => param.name === name);
      if (asked && views.has(box.id)) views.get(box.id).signal(name, value).runAsync();
    }
  };

  // The legend: a button per schedule, for every chart of the page.
  const swatch = (key) => {
    const style = page.schedules[key.dataset.schedule];
    const marks = {
      circle: '<circle cx="17" cy="6" r="4"/>', square: '<rect x="13.5" y="2.5" width="7" height="7"/>',
      "triangle-up": '<path d="M17 1.5l4.5 8h-9z"/>', "triangle-down": '<path d="M17 10.5l4.5-8h-9z"/>',
      diamond: '<path d="M17 1l4.5 5-4.5 5-4.5-5z"/>', cross: '<path d="M15.6 1.5h2.8v3.1h3.1v2.8h-3.1v3.1h-2.8v-3.1h-3.1v-2.8h3.1z"/>',
    };
    const line = `<path d="M1 6H33" fill="none" stroke="${style[theme()]}" stroke-width="2" stroke-dasharray="${style.dash.join(" ")}"/>`;
    key.querySelector("svg").innerHTML = `${style.dash[1] ? line : line.replace(/stroke-dasharray="[^"]*"/, "")}<g fill="${style[theme()]}">${marks[style.shape]}</g>`;
  };
  const keys = all("[data-schedule]");
  const kept = (store, name, value) => { // a file may have no storage
    try { return value === undefined ? store().getItem(name) : store().setItem(name, value); } catch { return null; }
  };
  const memory = `scyc-hidden ${document.title}`;
  (JSON.parse(kept(() => sessionStorage, memory)) || []).forEach((name) => hidden.add(name)); // a page that follows comes again
  keys.forEach((key) => {
    swatch(key);
    key.setAttribute("aria-pressed", String(!hidden.has(key.dataset.schedule)));
    key.addEventListener("click", () => {
      const name = key.dataset.schedule;
      hidden.has(name) ? hidden.delete(name) : hidden.add(name);
      key.setAttribute("aria-pressed", String(!hidden.has(name)));
      kept(() => sessionStorage, memory, JSON.stringify([...hidden]));
      tell("hidden", [...hidden]);
    });
  });

  // The cycle that some figures show.
  all("[data-cycle]").forEach((slider) => {
    const said = slider.closest(".controls").querySelector("output");
    const words = slider.dataset.words.split("|");
    const show = () => {
      said.textContent = `m = ${slider.value}: ${words[slider.value]}`;
      tell("cycle", Number(slider.value), slider.closest("section"));
    };
    slider.addEventListener("input", show);
    show();
  });

  // Figures of which one can choose.
  all(".choice").forEach((choice) => {
    const selects = all("[data-choose]", choice);
    const show = () => all("[data-figure]", choice).forEach((box) => {
      box.hidden = selects.some((select) => box.getAttribute(`data-option-${select.dataset.choose}`) !== select.value);
      if (!box.hidden && box.dataset.drawn !== theme()) drawn(box);
    });
    selects.forEach((select) => select.addEventListener("change", show));
  });

  // Light and dark: as the system says, until the reader says otherwise.
  const chosen = kept(() => localStorage, "scyc-theme");
  if (chosen) root.dataset.theme = chosen;
  const repaint = () => {
    keys.forEach(swatch);
    boxes.filter((box) => box.dataset.drawn && box.dataset.drawn !== theme() && !box.hidden).forEach(drawn);
  };
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
    kept(() => localStorage, "scyc-theme", root.dataset.theme);
    repaint();
  });
  dark.addEventListener("change", repaint);
  if (chosen) repaint();

  // Downloads: the data of a figure, its picture, and the files the page carries.
  const save = (name, blob) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const quoted = (value) => {
    const text = value === null ? "" : String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const csv = (figure) => {
    const table = rows(Object.values(figure.data)[0]);
    const names = Object.keys(table[0] || {});
    return [names.join(","), ...table.map((row) => names.map((name) => quoted(row[name])).join(","))].join("\n") + "\n";
  };
  all("[data-get]").forEach((button) => button.addEventListener("click", async () => {
    const box = button.closest("[data-figure]"), figure = page.figures[box.dataset.figure], kind = button.dataset.get;
    if (kind === "csv") return save(`${figure.file}.csv`, new Blob([csv(figure)], { type: "text/csv" }));
    if (!views.has(box.id)) await drawn(box);
    const view = views.get(box.id), former = view.background();
    view.background(page.inks[theme()].paper);
    if (kind === "svg") save(`${figure.file}.svg`, new Blob([await view.toSVG()], { type: "image/svg+xml" }));
    else (await view.toCanvas(2)).toBlob((blob) => save(`${figure.file}.png`, blob));
    view.background(former);
  }));
  all("[data-save]").forEach((button) => button.addEventListener("click", () => {
    save(button.dataset.save, new Blob([button.querySelector("template").content.textContent], { type: "text/plain" }));
  }));
})();
