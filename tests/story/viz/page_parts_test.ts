/** Parts of the page: which rows of a list stand, what is made anew, and the passes that a search leaves. */
import { assert, assertEquals } from "@std/assert";
import { record, Tensor } from "../../../mod.ts";
import {
  linkTo,
  type PageElement,
  showView,
  type Ui,
  type View,
  windowStart,
} from "../../../src/story/viz/page_parts.ts";
import { passesShown, passesView } from "../../../src/story/viz/page_passes.ts";
import { vizData } from "../../../src/story/viz/viz_data.ts";

Deno.test("page parts: the rows that stand have the selected one among them, and few moves change them", () => {
  for (const [count, limit] of [[0, 8], [1, 8], [8, 8], [9, 8], [100, 8], [1999, 400], [37, 5]]) {
    const starts = Array.from({ length: count }, (_, at) => windowStart(count, at, limit));
    for (const [at, start] of starts.entries()) {
      assert(
        start >= 0 && start <= at && at < start + limit && start <= Math.max(0, count - limit),
        `${at} of ${count}`,
      );
    }
    const changes = starts.filter((s, i) => i > 0 && s !== starts[i - 1]).length;
    assert(changes <= Math.ceil(count / (limit >> 1)), `${changes} changes of ${count} rows by ${limit}`);
  }
  assertEquals(windowStart(50, -1, 8), 0);
});

/** A document of nothing but places. */
function fakeRoot(names: readonly string[], log: string[]): PageElement {
  const element = (name: string): PageElement => ({
    get innerHTML() {
      return "";
    },
    set innerHTML(html: string) {
      log.push(`${name}: ${html}`);
    },
    dataset: { part: name },
    querySelectorAll: (selector: string) => selector === "[data-part]" && name === "root" ? places : [],
  } as unknown as PageElement);
  const places = names.map(element);
  return element("root");
}

Deno.test("page parts: a part is made when its key is another one, a frame when the view is", () => {
  const log: string[] = [], root = fakeRoot(["a", "b"], log), standing = { frame: "", places: new Map() };
  const view = (a: string, b: string, frame = "frame"): View => ({
    frame,
    parts: [{ name: "a", key: a, html: () => `A${a}` }, { name: "b", key: b, html: () => `B${b}`, on: 3 }],
  });
  const steps: readonly (readonly [View, string[]])[] = [
    [view("1", "1"), ["root: frame", "a: A1", "b: B1"]],
    [view("1", "1"), []],
    [view("1", "2"), ["b: B2"]],
    [view("", "2"), ["a: A"]],
    [view("", "2", "other"), ["root: other", "a: A", "b: B2"]],
  ];
  for (const [next, want] of steps) {
    log.length = 0;
    const made = showView(root, next, standing);
    assertEquals(log, want);
    assertEquals(made.length, want.filter((l) => !l.startsWith("root")).length);
  }
});

const data = vizData(
  record(() => Tensor.rand([4, 6], { device: "JS" }).matmul(Tensor.rand([6, 3], { device: "JS" })).realize()),
  "p",
);

Deno.test("page parts: keys of parts tell apart what is shown, and nothing more", () => {
  const ui: Ui = {
    data,
    other: undefined,
    twins: undefined,
    runs: data.kernels.map(() => ({ count: 0, ms: 0 })),
    selection: { view: "passes" },
    graphs: new Map(),
    graphCount: 0,
    graphHeight: 0,
    graphWidth: 0,
    shown: undefined,
  };
  const keys = (selection: Record<string, string>): Record<string, string> => {
    ui.selection = { view: "passes", ...selection };
    return Object.fromEntries(passesView(ui).parts.map((p) => [p.name, p.key]));
  };
  const many = data.passes.findIndex((p) => p.changes.length > 2), pass = String(many);
  const changed = (a: Record<string, string>, b: Record<string, string>): string[] =>
    Object.keys(a).filter((name) => a[name] !== b[name] && name !== "tools");
  const at = (more: Record<string, string>) => keys({ pass, ...more });
  assertEquals(changed(at({ change: "0" }), at({ change: "1" })), ["what"]);
  assertEquals(changed(at({}), at({ change: "0" })), ["what"]);
  assertEquals(changed(at({}), keys({ pass: String(many + 1) })), ["title", "changes", "what"]);
  assertEquals(changed(at({}), at({ all: "1" })), ["list", "changes"], "their links have another filter");
  // the list is that of the selection, found once
  ui.selection = { view: "passes" };
  const first = passesShown(ui);
  ui.selection = { view: "passes", pass };
  assert(passesShown(ui) === first && first.length > 5);
  ui.selection = { view: "passes", q: "constant to the right" };
  const found = passesShown(ui);
  assert(found.length > 0 && found.length < first.length);
  assert(
    found.every((i) =>
      JSON.stringify([data.passes[i], data.passes[i].changes.map(([r]) => data.rules[r].name)]).toUpperCase().includes(
        "CONSTANT TO THE RIGHT",
      )
    ),
  );
  assertEquals(linkTo(ui, { q: undefined, kernel: "3" }), "#view=passes&kernel=3");
});
