import { Check, Copy } from "lucide-react";
import { useEffect, useState } from "react";

/** Copies a text, and says for a moment that it did. `small` shows the label instead of an icon. */
export function CopyButton({ text, label, small }: { text: string; label: string; small?: boolean }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = window.setTimeout(() => setCopied(false), 1500);
    return () => window.clearTimeout(timer);
  }, [copied]);
  const copy = () => {
    void navigator.clipboard?.writeText(text).then(
      () => setCopied(true),
      () => {},
    );
  };
  if (small) {
    return (
      <button type="button" className="btn sm" onClick={copy}>
        {copied ? "Copied" : label}
      </button>
    );
  }
  return (
    <button
      type="button"
      className="iconbtn sm"
      aria-label={copied ? "Copied" : label}
      title={label}
      onClick={copy}
    >
      {copied ? <Check className="i s" aria-hidden="true" /> : <Copy className="i s" aria-hidden="true" />}
    </button>
  );
}
