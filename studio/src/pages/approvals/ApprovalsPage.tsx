export function ApprovalsPage() {
  return <main className="main" id="main" />;
}
