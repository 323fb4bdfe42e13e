// How the page is built: hashed files, nothing inline, so that the strictest Content-Security-Policy can stand.
import { defineConfig } from 'vite';

export default defineConfig({
  root: import.meta.dirname,
  base: './',
  build: { emptyOutDir: true, assetsInlineLimit: 0, modulePreload: { polyfill: false }, target: 'es2022' },
});
