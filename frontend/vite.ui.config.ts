import { defineConfig } from "vite";

// The page of `railyard ui`: the shell at once, editor and views of results when they are asked for. Names without
// digests: the files are committed, and the server says by their fingerprint whether a browser has them.
export default defineConfig({
  base: "/",
  build: {
    target: "es2022",
    outDir: `${process.env["RAILYARD_STATIC"] ?? "../src/railyard/face/web/static"}/ui`,
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    rollupOptions: {
      input: "ui.html",
      output: { entryFileNames: "assets/[name].js", chunkFileNames: "assets/[name].js", assetFileNames: "assets/[name][extname]" },
    },
  },
});
