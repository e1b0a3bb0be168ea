export function RunPage() {
  return <main className="main" id="main" />;
}
