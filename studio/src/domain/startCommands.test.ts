import { describe, expect, it } from "vitest";
import { asCommand, asCurl, asPython } from "./startCommands";

const start = {
  workflow: "refund",
  input: { order: "O'Neil", express: true, note: null },
  key: "order-7",
  server: "http://127.0.0.1:8710",
};

describe("a start as text", () => {
  it("is one word for a shell, whatever the input holds", () => {
    expect(asCommand(start)).toBe(
      `stepwell run refund --database http://127.0.0.1:8710 --input '{"order":"O'\\''Neil","express":true,"note":null}' --key order-7`,
    );
    expect(asCurl({ ...start, input: "$(rm)", key: "" })).toContain(
      `-d '{"workflow":"refund","input":"$(rm)"}'`,
    );
  });

  it("is Python with Python's words", () => {
    expect(asPython(start)).toContain(
      `client.start("refund", {"order": "O'Neil", "express": True, "note": None}, key="order-7")`,
    );
    expect(asPython({ ...start, input: undefined, key: "" })).toContain(`client.start("refund")`);
  });

  it("says that it is by hand where there is a form", () => {
    const byHand = { ...start, input: 1, key: "", manual: true };
    expect(asCommand(byHand)).toContain("--input 1 --manual");
    expect(asCurl(byHand)).toContain(`"trigger":"manual"`);
    expect(asPython(byHand)).toContain(`client.start("refund", 1, trigger="manual")`);
  });
});
