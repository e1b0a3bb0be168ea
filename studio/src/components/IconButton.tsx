import type { LucideIcon } from "lucide-react";

/** A small button with an icon alone; its label names what it acts on, its title is read on hover. */
export function IconButton(props: { icon: LucideIcon; title: string; label?: string; act: () => void }) {
  const Icon = props.icon;
  return (
    <button
      type="button"
      className="iconbtn sm"
      title={props.title}
      aria-label={props.label ?? props.title}
      onClick={props.act}
    >
      <Icon className="i" aria-hidden="true" />
    </button>
  );
}
