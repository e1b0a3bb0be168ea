/** Keys to press, one after the other or together. */
export function Kbd({ keys }: { keys: string[] }) {
  return (
    <span className="kbds">
      {keys.map((key) => (
        <kbd className="kbd" key={key}>
          {key}
        </kbd>
      ))}
    </span>
  );
}

export const modifier = /mac|iphone|ipad/i.test(navigator.userAgent) ? "⌘" : "Ctrl";
