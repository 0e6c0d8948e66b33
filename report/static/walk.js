// Lights up, in all columns, what belongs to the line that is pointed at, focused or held, and writes the way there.
// Without it every line still has the numbers of its partners.
(() => {
  "use strict";

  const order = ["source", "fx", "ir_pre", "ir_post", "cpp"];
  const columns = order.map((key) => document.querySelector(`.column[data-column="${key}"]`));
  const lines = [...document.querySelectorAll(".linked")];
  const columnOf = (line) => columns.indexOf(line.closest(".column"));
  const partners = new Map(
    lines.map((line) => [
      line,
      [...line.querySelectorAll(".partners a")]
        .map((link) => document.getElementById(link.getAttribute("href").slice(1)))
        .filter(Boolean),
    ]),
  );

  // Up through all that leads to a line, and down through all that was made of it; never up and down again.
  const family = (line) => {
    const found = new Set([line]);
    for (const direction of [-1, 1]) {
      const left = [line];
      while (left.length) {
        const from = left.pop();
        for (const partner of partners.get(from) ?? []) {
          if ((columnOf(partner) - columnOf(from)) * direction > 0 && !found.has(partner)) {
            found.add(partner);
            left.push(partner);
          }
        }
      }
    }
    return found;
  };

  const trail = document.querySelector(".trail");
  const head = trail.querySelector(".trail-head");
  const steps = order.map((key) => trail.querySelector(`[data-column="${key}"]`));
  const atRest = [head, ...steps].map((one) => [one, one.innerHTML, one.className]);
  document.documentElement.classList.add("scripted");
  const help = trail.querySelector(".help");
  if (help) help.hidden = false;
  atRest[0][1] = head.innerHTML;
  const MOST = 12;

  const rest = () => {
    for (const line of document.querySelectorAll(".lit, .chosen")) line.classList.remove("lit", "chosen");
    for (const [one, html, name] of atRest) {
      one.innerHTML = html;
      one.className = name;
    }
  };

  const write = (line, found) => {
    const guilty = [...found].some((one) => one.classList.contains("marked"));
    const words = document.createElement("strong");
    const title = line.closest(".column").querySelector("h2").firstChild.textContent.trim();
    words.textContent = `${title}, line ${line.querySelector(".number").textContent}`;
    if (guilty) words.textContent += line.classList.contains("leads") ? ": leads to the fault" : ": made with the faulty line";
    if (guilty) words.className = "no";
    head.replaceChildren(words);
    steps.forEach((step, column) => {
      const label = step.querySelector(".label");
      step.className = column === 4 && guilty ? "guilty" : "";
      step.replaceChildren(label);
      const members = lines.filter((one) => found.has(one) && columnOf(one) === column);
      for (const one of members.slice(0, MOST)) {
        const link = document.createElement("a");
        link.href = `#${one.id}`;
        const number = document.createElement("span");
        number.className = "number";
        number.textContent = one.querySelector(".number").textContent;
        const code = document.createElement("code");
        code.textContent = one.querySelector("code").textContent;
        link.append(number, " ", code);
        if (one.classList.contains("marked")) link.className = "at-fault";
        step.append(" ", link);
      }
      if (members.length > MOST) step.append(` and ${members.length - MOST} more`);
    });
  };

  let held = null;
  const light = (line, scroll) => {
    rest();
    if (!line) return;
    const found = family(line);
    for (const one of found) one.classList.add("lit");
    line.classList.add("chosen");
    write(line, found);
    if (!scroll) return;
    columns.forEach((column, place) => {
      // A line of its own says more than the head of what it stands in, which has many partners.
      const [first] = lines
        .filter((one) => found.has(one) && columnOf(one) === place)
        .sort((one, other) => partners.get(one).length - partners.get(other).length);
      const pane = column.querySelector(".pane");
      const target = place === columnOf(line) ? line : first;
      if (!target) return;
      const above = target.getBoundingClientRect().top - pane.getBoundingClientRect().top;
      if (above < 0 || above > pane.clientHeight - 40) pane.scrollTop += above - pane.clientHeight / 3;
    });
  };
  const hold = (line) => {
    held = line;
    light(line, true);
  };

  // One stop of the tab key a column; arrows move from there.
  const stop = (line) => {
    for (const one of lines) if (columnOf(one) === columnOf(line)) one.tabIndex = -1;
    line.tabIndex = 0;
  };
  for (const line of lines) line.tabIndex = -1;
  columns.forEach((_, place) => {
    const own = lines.filter((one) => columnOf(one) === place);
    const first = own.find((one) => one.classList.contains("leads")) ?? own[0];
    if (first) first.tabIndex = 0;
  });

  const go = (line) => {
    if (!line) return;
    stop(line);
    line.focus({ preventScroll: true });
    line.scrollIntoView({ block: "nearest" });
  };
  for (const line of lines) {
    line.addEventListener("mouseenter", () => held || light(line, false));
    line.addEventListener("mouseleave", () => held || light(null, false));
    line.addEventListener("click", () => hold(held === line ? null : line));
    line.addEventListener("focus", () => {
      if (!line.matches(":focus-visible")) return;
      if (held) held = line;
      light(line, true);
    });
    line.addEventListener("keydown", (event) => {
      const own = lines.filter((one) => columnOf(one) === columnOf(line));
      const at = own.indexOf(line);
      const beside = (step) => {
        const found = family(line);
        for (let place = columnOf(line) + step; place >= 0 && place < order.length; place += step) {
          const first = lines.find((one) => found.has(one) && columnOf(one) === place);
          if (first) return first;
        }
        return null;
      };
      const moves = {
        ArrowDown: () => go(own[at + 1]),
        ArrowUp: () => go(own[at - 1]),
        ArrowRight: () => go(beside(1)),
        ArrowLeft: () => go(beside(-1)),
        Enter: () => hold(line),
        " ": () => hold(line),
      };
      if (!moves[event.key]) return;
      event.preventDefault();
      moves[event.key]();
    });
  }
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") hold(null);
  });

  const openTarget = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && partners.has(target)) {
      stop(target);
      hold(target);
    }
  };
  addEventListener("hashchange", openTarget);
  openTarget();
  if (!held) {
    // Those that are at fault stand where they can be seen.
    columns.forEach((column) => {
      const first = column.querySelector(".leads");
      const pane = column.querySelector(".pane");
      if (first) pane.scrollTop = first.offsetTop - pane.clientHeight / 3;
    });
  }
})();
