/** The parts of a form that a verb describes: files that it reads, choices that it has. */

import { useState } from "preact/hooks";
import { Spelt } from "../parts";
import type { InputRow, InputSpec, OptionSpec } from "./api.gen";
import { api } from "./api";
import { Words } from "./words";

/** What is given for each input, and what is chosen, by name. */
export interface Given {
  files: Record<string, string[]>;
  options: Record<string, string>;
}

export function Choices({ options, chosen, choose }: { options: readonly OptionSpec[]; chosen: Record<string, string>; choose: (name: string, value: string) => void }) {
  return (
    <>
      {options.map((option) => (
        <label class="name" title={option.about}>
          {option.title}{" "}
          {option.allowed.length === 0 ? <Words value={chosen[option.name] ?? option.default} put={(words) => choose(option.name, words)} /> : (
            <select value={chosen[option.name] ?? option.default} onChange={(event) => choose(option.name, event.currentTarget.value)}>
              {option.allowed.map((value) => <option value={value}>{value}</option>)}
            </select>
          )}
        </label>
      ))}
    </>
  );
}

/** One input: typed or chosen from what lies in the folder, or uploaded into it. */
export function Pick({ verb, input, rows, given, give, arrived }: {
  verb: string;
  input: InputSpec;
  rows: readonly InputRow[];
  given: readonly string[];
  give: (next: (files: readonly string[]) => string[]) => void;
  /** Called when there is more in the folder than `rows` have. */
  arrived: () => void;
}) {
  const [trouble, setTrouble] = useState<string>();
  const [busy, setBusy] = useState(false);
  // The server has these; `rows` are asked for again, and come later.
  const [stored, setStored] = useState<readonly string[]>([]);
  const id = `input-${input.name}`;
  const fitting = rows.filter((row) => input.takes === "either" || row.folder === (input.takes === "folder"));
  const put = (words: string) => give((files) => (input.several ? [...files, words].filter(Boolean) : words === "" ? [] : [words]));
  const upload = async (files: readonly File[]) => {
    setBusy(true);
    setTrouble(undefined);
    try {
      const names = await uploaded(`${verb}-${input.name}`, files, input);
      setStored((before) => [...before, ...names]);
      give((files) => (input.several ? [...files, ...names] : names));
      arrived();
    } catch (error) {
      setTrouble((error as Error).message);
    }
    setBusy(false);
  };
  return (
    <div class="pick">
      <label for={id}><b>{input.title}</b>{input.needed ? "" : <span class="muted"> (where there is one)</span>}</label>
      <br /><small class="muted" id={`${id}-about`}><Spelt words={input.about} /></small>
      {input.several && given.length > 0 && (
        <ul class="links">{given.map((file) => <li>{file} <button type="button" onClick={() => give((files) => files.filter((one) => one !== file))} aria-label={`leave out ${file}`}>Leave out</button></li>)}</ul>
      )}
      <p class="tools">
        <Words id={id} aria-describedby={`${id}-about`} list={`${id}-there`} value={input.several ? "" : (given[0] ?? "")} placeholder={input.takes === "folder" ? "a folder below" : "a name below"} put={put} />
        <datalist id={`${id}-there`}>{fitting.map((row) => <option value={row.file} />)}</datalist>
        <label class="upload">Upload<input type="file" aria-label={`upload ${input.title}`} multiple={input.several || input.takes !== "file"} onChange={(event) => void upload([...(event.currentTarget.files ?? [])])} /></label>
        {busy && <span class="muted" role="status">uploading</span>}
      </p>
      {input.takes === "file" && !input.several && <Paste title={input.title} put={(text) => void upload([new File([text], `pasted-${input.name}-${stamp()}.txt`)])} />}
      {trouble && <p class="fault" role="alert">{trouble}</p>}
      {!busy && given.filter((file) => !stored.includes(file) && !fitting.some((row) => row.file === file)).map((file) => <p class="fault" role="alert">Nothing that is listed is called {file}.</p>)}
    </div>
  );
}

/** A text in place of a file. */
function Paste({ title, put }: { title: string; put: (text: string) => void }) {
  const [text, set] = useState("");
  return (
    <details class="paste">
      <summary>or paste its text</summary>
      <textarea aria-label={`text of ${title}`} rows={8} spellcheck={false} value={text} onInput={(event) => set(event.currentTarget.value)} />
      <p class="tools"><button type="button" disabled={text.trim() === ""} onClick={() => put(text)}>Take it</button></p>
    </details>
  );
}

const stamp = (): string => new Date().toISOString().replace(/\D/g, "").slice(0, 14);

/** Names below the folder of what was uploaded: several files for one input go into a folder of their own. */
async function uploaded(prefix: string, files: readonly File[], input: InputSpec): Promise<string[]> {
  const together = input.takes === "folder" || (input.takes === "either" && !input.several && files.length > 1);
  const folder = `${prefix}-${stamp()}`;
  const names: string[] = [];
  for (const file of files) names.push((await api.upload(together ? `${folder}/${file.name}` : file.name, file)).file);
  return together && names.length > 0 ? [`uploads/${folder}`] : names;
}
