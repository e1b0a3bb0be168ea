/** Whether something is on. */
export function Switch(props: { label: string; on: boolean; set: (on: boolean) => void }) {
  return (
    <input
      type="checkbox"
      className="switch"
      role="switch"
      aria-label={props.label}
      checked={props.on}
      onChange={(event) => props.set(event.target.checked)}
    />
  );
}
