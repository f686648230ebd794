/** A plan, a diagnosis, a tuning or an audit, as its page shows it, with its way into the hall. */

import { AnswerView, titleOf } from "../../answers/answer";
import { address } from "../../place";
import { api } from "../api";
import { Files } from "../files";
import { useLoaded } from "../loaded";

export function AnswerPage({ answer }: { answer: string }) {
  const [found] = useLoaded(async () => {
    const [document, said, rows] = await Promise.all([api.answer(answer), api.said(answer), api.answers()]);
    return { document, said, hall: rows.find((row) => row.answer === answer)?.hall ?? false };
  }, [answer]);
  if (found.error !== undefined) return <p class="failure">{found.error}. <a href="#/">To the runs</a></p>;
  if (found.value === undefined) return <p class="muted" role="status">reading {answer}</p>;
  const { document, said, hall } = found.value;
  const inHall = (finding: number | undefined) =>
    hall ? address("/floor", { answer, heat: "findings", ...(finding === undefined ? {} : { finding: String(finding + 1) }) }) : undefined;
  return (
    <>
      <h1>{titleOf(document)}</h1>
      <p class="muted">Railyard {document.version}</p>
      <p class="tools"><a class="action" href={api.answerPage(answer)} download>Save as one file</a>{hall && <a href={inHall(undefined) ?? ""}>Show in the hall</a>}</p>
      <Files folder={`runs/${answer}`} />
      <AnswerView answer={document} said={said} hall={inHall} />
    </>
  );
}
