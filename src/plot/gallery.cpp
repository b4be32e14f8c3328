#include "plot/gallery.h"

#include "dtn/core/check.h"
#include "plot/text.h"

namespace dtn::plot {
namespace {

constexpr std::string_view kGalleryStyle = R"css(
.gallery figcaption{margin-bottom:1rem}
.gallery ul{list-style:none;margin:0;padding:0;display:grid;gap:1.5rem 2.5rem;
grid-template-columns:repeat(auto-fill,minmax(min(100%,27rem),1fr))}
.gallery li{display:flex;gap:.4rem}
.gallery li>div{flex:1 1 0;min-width:0;overflow-wrap:anywhere;font-size:.75rem;line-height:1.25}
.gallery li>div:first-child{font-weight:bold;margin-right:.5rem}
.gallery img{display:block;width:100%;border:3px solid var(--soft);margin-bottom:.2rem}
.gallery .right img{border-color:var(--s2)}
.gallery .wrong img{border:3px dashed var(--s5)}
.gallery .pixelated img{image-rendering:pixelated}
.gallery ul.large{grid-template-columns:1fr}
.gallery .large li{gap:1rem}
.gallery .large li>div:first-child{font-weight:normal;margin-right:0}
.gallery .large img{border-width:1px;width:auto;max-width:100%;max-height:30rem}
.gallery ul.tiles{grid-template-columns:1fr;gap:2rem 2.5rem}
.gallery ul.tiles.headed{grid-template-columns:repeat(auto-fill,minmax(min(100%,27rem),1fr))}
.gallery .tiles li{display:grid;align-content:start;gap:.8rem .6rem;
grid-template-columns:repeat(auto-fill,minmax(7rem,1fr))}
.gallery .headed li{grid-template-columns:repeat(4,minmax(0,1fr));gap:.4rem}
.gallery .tiles li>div:first-child{font-weight:normal;margin-right:0}
.gallery .tiles img{border-width:1px}
.gallery .tiles h3{grid-column:1/-1;margin:0}
.gallery h3 span{font-weight:normal;color:var(--soft)}
.gallery small{display:block;font-size:.7rem;font-weight:normal;color:var(--soft)}
@media(max-width:40rem){.gallery li{display:grid;grid-template-columns:repeat(3,minmax(0,1fr))}
.gallery li>div:first-child{margin-right:0}.gallery .large li{grid-template-columns:1fr}
.gallery .tiles li{grid-template-columns:repeat(3,minmax(0,1fr))}
.gallery .headed li{grid-template-columns:repeat(4,minmax(0,1fr))}}
)css";

const char* class_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kRight: return " class=\"right\"";
    case Verdict::kWrong: return " class=\"wrong\"";
    case Verdict::kNone: break;
  }
  return "";
}

std::string class_of(const Gallery& gallery) {
  std::string names;
  const auto add = [&](bool has, const char* name) {
    if (has) names += cat(names.empty() ? "" : " ", name);
  };
  add(gallery.pixelated, "pixelated");
  add(gallery.large, "large");
  add(gallery.tiles, "tiles");
  add(!gallery.headings.empty(), "headed");
  return names.empty() ? "" : cat(" class=\"", names, "\"");
}

std::string sign_of(Verdict verdict) {
  if (verdict == Verdict::kNone) return "";
  const bool right = verdict == Verdict::kRight;
  return cat("<span role=\"img\" aria-label=\"", right ? "right" : "wrong", "\">",
             right ? "\xE2\x9C\x93" : "\xE2\x9C\x97", "</span> ");
}

std::string picture_html(const GalleryPicture& picture) {
  const bool is_jpeg = picture.png.starts_with("\xFF\xD8");
  return cat("<div", class_of(picture.verdict), "><img alt=\"", escaped(picture.description),
             "\" src=\"data:image/", is_jpeg ? "jpeg" : "png", ";base64,", base64(picture.png),
             "\">", escaped(picture.text), "<small>", sign_of(picture.verdict),
             escaped(picture.note), "</small></div>\n");
}

std::string heading_html(const GalleryHeading& heading) {
  return cat("<h3>", escaped(heading.title), " <span>", escaped(heading.text), "</span></h3>\n");
}

}  // namespace

std::string gallery_html(const Gallery& gallery) {
  const std::vector<GalleryHeading>& headings = gallery.headings;
  DTN_CHECK(headings.empty() || (gallery.tiles && headings.size() == gallery.rows.size()),
            headings.size(), " headings of ", gallery.rows.size(), " rows");
  std::string out = cat("<figure id=\"", gallery.name, "\" class=\"gallery\">\n<figcaption>",
                        escaped(gallery.caption), "</figcaption>\n<ul", class_of(gallery), ">\n");
  for (std::size_t i = 0; i < gallery.rows.size(); ++i) {
    out += "<li>\n";
    if (!headings.empty()) out += heading_html(headings[i]);
    for (const GalleryPicture& picture : gallery.rows[i]) out += picture_html(picture);
    out += "</li>\n";
  }
  return out + "</ul>\n</figure>\n";
}

std::string_view gallery_style() { return kGalleryStyle; }

}  // namespace dtn::plot
