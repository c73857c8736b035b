import { gzipSync } from "node:zlib";
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig, type Plugin } from "vite";

const out = process.env.CONSOLE_OUT ?? "../src/msmq/web/static";

/** Each file is compressed once, here, and not for each request. */
function packed(): Plugin {
  return {
    name: "packed",
    closeBundle() {
      const pack = (directory: string): void => {
        for (const name of readdirSync(directory)) {
          const path = join(directory, name);
          if (statSync(path).isDirectory()) pack(path);
          else if (/\.(js|css|html|svg)$/.test(name)) writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
        }
      };
      pack(out);
    },
  };
}

export default defineConfig({
  plugins: [svelte(), packed()],
  build: {
    outDir: out,
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    rollupOptions: { output: { entryFileNames: "assets/console.js", chunkFileNames: "assets/[name].js", assetFileNames: "assets/console[extname]" } },
  },
});
