// The pages' scripts. Each module decorates what the server printed, found by its data- attribute;
// a page without them loses comfort, never function.
import "./copy.js";
import "./times.js";
import "./part.js";
import "./live.js";
import "./dialog.js";
import "./select.js";
import "./keys.js";
import "./form.js";
