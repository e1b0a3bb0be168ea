export function WorkflowPage() {
  return <main className="main" id="main" />;
}
