/**
 * The service worker of the page: keeps what was loaded, so that the page works offline. What the network has is newer.
 *
 * @module
 */
/// <reference lib="webworker" />

const scope = self as unknown as ServiceWorkerGlobalScope, NAME = "dinograd-gallery";
/** All that the page loads. */
const FILES = ["./", "gallery.js", "gallery.css", "talk.html", "talk.js", "jinja.js", "models/stories260K.gguf"];

scope.addEventListener("install", (event) => {
  event.waitUntil(caches.open(NAME).then((kept) => kept.addAll(FILES)).then(() => scope.skipWaiting()));
});
scope.addEventListener("activate", (event) => event.waitUntil(scope.clients.claim()));
scope.addEventListener("fetch", (event) => {
  if (event.request.method !== "GET") return;
  const answer = async (): Promise<Response> => {
    const kept = await caches.open(NAME);
    try {
      const found = await fetch(event.request);
      if (found.ok) await kept.put(event.request, found.clone());
      return found;
    } catch (error) {
      const known = await kept.match(event.request, { ignoreSearch: true });
      if (known === undefined) throw error;
      return known;
    }
  };
  event.respondWith(answer());
});
