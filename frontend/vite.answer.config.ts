import { defineConfig } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

// The page of a plan, a diagnosis, a tuning or an audit: one file as the report is, which stays lighter without it.
export default defineConfig({
  plugins: [viteSingleFile({ removeViteModuleLoader: true })],
  build: {
    target: "es2022",
    outDir: process.env["RAILYARD_STATIC"] ?? "../src/railyard/face/web/static",
    emptyOutDir: false,
    rollupOptions: { input: "answer.html" },
  },
});
