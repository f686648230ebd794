/** Files that a verb wrote, to be saved one by one or all as one archive; listed once somebody wants to see them. */

import { useState } from "preact/hooks";
import { bytes, whole } from "../format";
import { api } from "./api";
import { useLoaded } from "./loaded";

/** Beyond that the archive is the better choice. */
const MOST = 500;

export function Files({ folder }: { folder: string }) {
  const [wanted, want] = useState(false);
  return (
    <details class="files" onToggle={(event) => want(event.currentTarget.open)}>
      <summary>Files</summary>
      {wanted && <Listed folder={folder} />}
    </details>
  );
}

function Listed({ folder }: { folder: string }) {
  const [files] = useLoaded(() => api.outputs(folder), [folder]);
  if (files.error !== undefined) return <p class="fault" role="alert">{files.error}</p>;
  if (files.value === undefined) return <p class="muted" role="status">reading the folder</p>;
  const all = files.value.reduce((sum, file) => sum + file.bytes, 0);
  return (
    <>
      <p class="tools"><a class="action" href={api.archive(folder)} download>Save all as one archive</a><span class="muted">{whole(files.value.length)} file{files.value.length === 1 ? "" : "s"}, {bytes(all)}, in <code>{folder}</code></span></p>
      <ul class="links">{files.value.slice(0, MOST).map((file) => <li key={file.name}><a href={api.outputFile(folder, file.name)} download>{file.name}</a> <small>{bytes(file.bytes)}</small></li>)}</ul>
      {files.value.length > MOST && <p class="muted">and {whole(files.value.length - MOST)} more, in the archive</p>}
    </>
  );
}
