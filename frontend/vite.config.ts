import { defineConfig } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

// One file, nothing fetched: the report is opened from a disk, by mail, years later.
export default defineConfig({
  plugins: [viteSingleFile({ removeViteModuleLoader: true })],
  build: {
    target: "es2022",
    outDir: process.env["RAILYARD_STATIC"] ?? "../src/railyard/face/web/static",
    emptyOutDir: false,
    rollupOptions: { input: "report.html" },
  },
});
