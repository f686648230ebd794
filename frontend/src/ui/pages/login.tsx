import { useState } from "preact/hooks";
import { api } from "../api";
import { useOnce } from "../once";

export function Login({ failed, done }: { failed: string; done: () => void }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState<string>();
  const [busy, send] = useOnce(() => api.login(token).then(done, (problem: Error) => setError(problem.message)));
  return (
    <main class="login">
      <h1>Railyard</h1>
      <p class="muted">{error ?? failed}</p>
      <form onSubmit={(event) => { event.preventDefault(); send(); }}>
        <label>Token <input type="password" autocomplete="current-password" value={token} onInput={(event) => setToken(event.currentTarget.value)} /></label>
        <button type="submit" disabled={busy}>Log in</button>
      </form>
    </main>
  );
}
