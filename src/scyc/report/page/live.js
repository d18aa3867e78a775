"use strict";
// Looks at the experiment every second; the whole page comes again when more is recorded, but not every moment.
(() => {
  const bar = document.querySelector("#live progress"), said = document.querySelector("#live .said");
  const began = Date.now();
  let first = null, failures = 0;
  const look = async () => {
    try {
      const state = await (await fetch("/state")).json();
      failures = 0;
      first ??= Number(document.getElementById("live").dataset.records);
      bar.value = state.share;
      said.textContent = state.words.join(" · ");
      const more = state.records !== first, ended = state.done && document.getElementById("live").dataset.done !== "true";
      if (ended || (more && Date.now() - began > 5000)) return location.reload();
      if (state.done) return;
    } catch {
      if (++failures > 5) { said.textContent = "the watch has ended; this is what was known then"; return; }
    }
    setTimeout(look, 1000);
  };
  look();
})();
