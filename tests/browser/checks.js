// What the tests ask a page about itself.

// Playwright runs this inside a function: what the tests use is put where they find it.
globalThis.violations = [];
document.addEventListener("securitypolicyviolation", (event) => violations.push(`${event.violatedDirective} ${event.blockedURI}`));

/** Elements whose text has less contrast to what lies behind it than 4.5 to 1. */
globalThis.poorContrasts = () => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = (share) => (share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4);
  const luminance = (colour) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, at) => sum + weight * linear(colour[at] / 255), 0);
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = rgba(getComputedStyle(each).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255];
  };
  const speaks = (element) => element.matches("input, textarea, select")
    || [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    if (!speaks(element) || !element.checkVisibility() || !element.getClientRects().length) continue;
    const [dark, light] = [rgba(getComputedStyle(element).color), behind(element)].map(luminance).sort();
    const ratio = (light + 0.05) / (dark + 0.05);
    if (ratio < 4.5) poor.push(`${element.localName}#${element.id}.${element.className}: ${ratio.toFixed(2)}`);
  }
  return poor;
};

/** What somebody who hears the page, or moves through it by Tab, would stumble over. */
globalThis.stumblingBlocks = () => {
  const shown = [...document.querySelectorAll("input, select, textarea, button, a, dialog, nav, section, article")]
    .filter((element) => element.checkVisibility());
  const name = (element) => element.ariaLabel
    || document.getElementById(element.getAttribute("aria-labelledby"))?.textContent
    || [...(element.labels ?? [])].map((label) => label.textContent.trim()).join("")
    || (element.matches("button, a") && element.textContent.trim());
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  return [
    ...shown.filter((element) => !name(element)).map((element) => `${element.localName}#${element.id} has no name`),
    ...shown.filter((element) => element.tabIndex > 0).map((element) => `#${element.id} breaks the order of focus`),
    ...ids.filter((id, at) => ids.indexOf(id) !== at).map((id) => `#${id} is there twice`),
  ];
};
