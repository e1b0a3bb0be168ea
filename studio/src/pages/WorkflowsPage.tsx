export function WorkflowsPage() {
  return <main className="main" id="main" />;
}
