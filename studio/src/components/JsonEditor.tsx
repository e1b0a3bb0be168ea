import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { EditorView, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "react";

const COLOURS = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--code-key)" },
  { tag: tags.string, color: "var(--code-string)" },
  { tag: tags.number, color: "var(--code-number)" },
  { tag: [tags.bool, tags.null], color: "var(--code-word)" },
]);

const LOOK = EditorView.theme({
  "&": { fontSize: "12px", color: "var(--text)", background: "transparent", maxHeight: "46vh" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--font-mono)", lineHeight: "1.5", overflow: "auto" },
  ".cm-content": { padding: "6px 0", caretColor: "var(--text)" },
  ".cm-gutters": { background: "transparent", border: "0", color: "var(--text-3)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-selectionBackground, &.cm-focused .cm-selectionBackground": { background: "var(--accent-tint)" },
  ".cm-matchingBracket": { background: "var(--pressed)", outline: "none" },
});

/**
 * A JSON editor. It lives in a shadow root: there its styles are constructed sheets, which the content policy
 * allows; in the page they would be an inline style element, which it refuses.
 */
export default function JsonEditor(props: {
  label: string;
  text: string;
  describedBy?: string;
  invalid: boolean;
  rows: number;
  change: (text: string) => void;
}) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const change = useRef(props.change);
  change.current = props.change;
  const start = useRef({ text: props.text, label: props.label, rows: props.rows });
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open", delegatesFocus: true });
    const parent = document.createElement("div");
    root.append(parent);
    const { text, label, rows } = start.current;
    const editor = new EditorView({
      root,
      parent,
      state: EditorState.create({
        doc: text,
        extensions: [
          lineNumbers(),
          history(),
          bracketMatching(),
          json(),
          syntaxHighlighting(COLOURS),
          LOOK,
          EditorView.theme({ ".cm-content, .cm-gutter": { minHeight: `${rows * 18 + 12}px` } }),
          EditorView.lineWrapping,
          // Tab leaves the editor, as it leaves every other field.
          keymap.of([...defaultKeymap.filter((each) => each.key !== "Mod-Enter"), ...historyKeymap]),
          EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false" }),
          // Typing over coloured text makes Chromium keep its colour in an inline style, which the policy refuses.
          EditorView.domEventHandlers({
            beforeinput: (event, editor) => {
              if (event.inputType !== "insertText" || event.data === null) return false;
              if (editor.state.selection.main.empty) return false;
              event.preventDefault();
              editor.dispatch(editor.state.replaceSelection(event.data), { scrollIntoView: true });
              return true;
            },
          }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) change.current(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = editor;
    return () => {
      editor.destroy();
      parent.remove();
    };
  }, []);
  useEffect(() => {
    const content = view.current?.contentDOM;
    content?.setAttribute("aria-invalid", String(props.invalid));
  }, [props.invalid]);
  return <div className={props.invalid ? "jsonedit bad" : "jsonedit"} ref={host} />;
}
