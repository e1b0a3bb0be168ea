import { Copy } from "lucide-react";

export function CopyButton({ text, label }: { text: string; label: string }) {
  return (
    <button
      type="button"
      className="iconbtn sm"
      aria-label={label}
      title={label}
      onClick={() => navigator.clipboard?.writeText(text)}
    >
      <Copy className="i s" aria-hidden="true" />
    </button>
  );
}
