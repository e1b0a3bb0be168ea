export function WorkersPage() {
  return <main className="main" id="main" />;
}
