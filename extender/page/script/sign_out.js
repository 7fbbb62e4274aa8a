import { signOut } from "./api.js";
import { element } from "./dom.js";

/** Ends what the form for the token began: the server has the browser forget its cookie, and "/" is the form again. */
export function signOutButton(onFailure) {
  const click = () => signOut().then(() => location.reload(), onFailure);
  return element("button", { type: "button", class: "quiet-button", on: { click } }, "Sign out");
}
