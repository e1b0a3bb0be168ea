import { FormDialog } from "./FormDialog";

/** Asks before something is deleted, and says what becomes of what depends on it. */
export function DeleteDialog(props: {
  name: string;
  lead: string;
  word: string;
  close: () => void;
  remove: () => void;
}) {
  return (
    <FormDialog
      title={`Delete ${props.name}?`}
      lead={props.lead}
      close={props.close}
      keep="Keep it"
      word={props.word}
      danger
      act={() => {
        props.close();
        props.remove();
      }}
    />
  );
}
