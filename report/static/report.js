// What the page does beyond reading: opens what an address points at, shows findings of one state, opens reasons in print.
// Without it everything is still there, only not filtered.
(() => {
  "use strict";

  const claims = [...document.querySelectorAll(".claim")];
  const sections = [...document.querySelectorAll(".findings .section")];
  const buttons = [];
  const show = (state) => {
    for (const claim of claims) claim.hidden = state !== null && claim.dataset.state !== state;
    for (const section of sections) {
      let some = false;
      for (let next = section.nextElementSibling; next && next.classList.contains("claim"); next = next.nextElementSibling) {
        some ||= !next.hidden;
      }
      section.hidden = !some;
    }
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.state === state));
  };
  for (const item of document.querySelectorAll(".tally li:not(.none)")) {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.state = item.dataset.state;
    button.title = "Show only these findings";
    button.setAttribute("aria-pressed", "false");
    button.append(...item.childNodes);
    button.addEventListener("click", () => {
      show(button.getAttribute("aria-pressed") === "true" ? null : button.dataset.state);
    });
    item.append(button);
    buttons.push(button);
  }

  const openTarget = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    if (target.hidden) show(null);
    if (target.classList.contains("claim")) target.querySelector("details").open = true;
    for (let box = target.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", openTarget);
  openTarget();

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll(".why details:not([open])")];
    for (const box of opened) box.open = true;
  });
  addEventListener("afterprint", () => {
    for (const box of opened) box.open = false;
  });
})();
