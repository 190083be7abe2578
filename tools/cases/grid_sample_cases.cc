// SPDX-License-Identifier: MIT
#include "cases/cases.h"
#include "cases/grid_reference.h"

namespace ebb::table {
namespace {

Case case_of(Op op, std::string name, std::size_t inputs) {
  Case c;
  c.op = op;
  c.name = std::move(name);
  c.inputs.resize(inputs);
  c.inputs.back().domain = {{-1.2, 1.2}};  // the grid: some points are outside
  c.loose = 20;                            // a place has roundings of the size of the image
  c.loose_gradient = 20;
  c.loose_narrow = 5;  // a point near an element may be on the other side of it
  return c;
}

}  // namespace

std::vector<Case> grid_sample_cases() {
  std::vector<Case> cases;
  const GridSampleCall linear{.taps = 2},
      reflected{.taps = 2, .padding = GridSampleCall::reflection, .align_corners = true},
      nearest{.taps = 1, .padding = GridSampleCall::border, .align_corners = true},
      cubic{.taps = 4, .padding = GridSampleCall::reflection},
      cubic_border{.taps = 4, .padding = GridSampleCall::border, .align_corners = true};
  const std::vector<std::vector<Index>> planes{{{1, 2, 3, 4}, {1, 5, 2}},   {{2, 1, 1, 5}, {2, 7, 2}},
                                               {{3, 5, 4, 6}, {3, 300, 2}}, {{0, 2, 4, 4}, {0, 3, 2}},
                                               {{2, 0, 4, 4}, {2, 3, 2}},   {{2, 3, 4, 4}, {2, 0, 2}}};
  // Volumes of 2 x 3 x 5 elements in one axis: second derivatives to five of them would have ten.
  const std::vector<std::vector<Index>> volumes{{{1, 1, 30}, {1, 4, 3}}, {{2, 3, 30}, {2, 33, 3}}};
  const auto image_of = [](const Tensor& x) { return x.rank() == 4 ? x : reshape(x, {x.size(0), x.size(1), 2, 3, 5}); };
  const auto array_of = [](Array x) {
    if (x.shape.size() == 3) x.shape = {x.shape[0], x.shape[1], 2, 3, 5};
    return x;
  };

  const auto sample = [&](const char* name, const GridSampleCall& call, const auto& shapes, std::vector<Index> large) {
    Case c = case_of(Op::grid_sample, name, 2);
    c.shapes = shapes;
    c.large = std::move(large);
    c.call = [call, image_of](const Tensors& x) { return grid_sample_node(image_of(x[0]), x[1], call); };
    c.reference = [call, array_of](const Arrays& x) { return grid_sample_reference(call, array_of(x[0]), x[1]); };
    cases.push_back(c);
  };
  sample("grid_sample", linear, planes, {{4, 16, 30, 40}, {4, 1500, 2}});
  sample("grid_sample_nearest", nearest, planes, {{4, 16, 30, 40}, {4, 1500, 2}});
  sample("grid_sample_bicubic", cubic, planes, {{4, 16, 30, 40}, {4, 1500, 2}});
  sample("grid_sample_of_volumes", reflected, volumes, {{4, 16, 30}, {4, 1500, 3}});

  const auto to_image = [&](const char* name, const GridSampleCall& call) {
    Case c = case_of(Op::grid_sample_image_gradient, name, 2);
    c.shapes = {{{1, 2, 5}, {1, 5, 2}}, {{2, 3, 300}, {2, 300, 2}}, {{2, 0, 3}, {2, 3, 2}}, {{2, 3, 0}, {2, 0, 2}}};
    c.large = {{4, 16, 1500}, {4, 1500, 2}};
    c.loose = 200;  // as many points as there are go to one element
    c.call = [call](const Tensors& x) {
      return grid_sample_image_gradient_node(x[0], x[1], call, {x[0].size(0), x[0].size(1), 4, 7});
    };
    c.reference = [call](const Arrays& x) {
      return grid_sample_image_gradient_reference(call, x[0], x[1], {x[0].shape[0], x[0].shape[1], 4, 7});
    };
    cases.push_back(c);
  };
  to_image("grid_sample_image_gradient", linear);
  to_image("grid_sample_image_gradient_bicubic", cubic_border);

  const auto to_grid = [&](const char* name, const GridSampleCall& call, auto shapes) {
    Case c = case_of(Op::grid_sample_grid_gradient, name, 3);
    for (auto& s : shapes) s.insert(s.begin(), Index{s[0][0], s[0][1], s[1][1]});
    c.shapes = shapes;
    c.large = {{4, 16, 1500}, {4, 16, 30, 40}, {4, 1500, 2}};
    if (shapes[0][2][2] == 3) c.large = {{4, 16, 1500}, {4, 16, 30}, {4, 1500, 3}};
    c.loose = 200;  // sums over channels of slopes, which are as large as the image
    c.call = [call, image_of](const Tensors& x) {
      return grid_sample_grid_gradient_node(x[0], image_of(x[1]), x[2], call);
    };
    c.reference = [call, array_of](const Arrays& x) {
      return grid_sample_grid_gradient_reference(call, x[0], array_of(x[1]), x[2]);
    };
    cases.push_back(c);
  };
  to_grid("grid_sample_grid_gradient", linear, planes);
  to_grid("grid_sample_grid_gradient_bicubic", cubic, planes);
  to_grid("grid_sample_grid_gradient_of_volumes", reflected, volumes);
  return cases;
}

}  // namespace ebb::table
